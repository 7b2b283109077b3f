-- Takes names: all of them or none. The gate, then the first name that refuses decides.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue; a gate's are the last
-- ARGV    names   with the gate
--         owner
--         mode    'lock'; 'reader'; or 'permit': nobody may hold the last name, the gate, or wait for it
--         kind    what the hold is: see P{name}
--         ttl, ballot
--         follows of a reader that was a writer, the token of that; or 0
--         ticket  place in the queue: us at which the acquire began
--         lasts   ms that a hand-over to it lasts
--         again   ms in which it asks again; 0: it does not wait. Of one name only
--         next    the ballot of a waiter that a free name is handed to; not above its own ballot: it
--                 overtakes all that wait
-- Returns nothing if all is granted, else
--         held, HOLDER, MS LEFT, BAR, PLACE, KIND    stale, BAR    lost, ''  its writer is over
--         misused, NUMBER  of the name that is held as a gate and claimed as a lock, or the other way round

claims = true

-- The kind of a gate.
local GATE = 3

-- Whether it is held as a gate, and this is no gate, or the other way round.
local function misused(it, kind)
  return it.holder and (it.ends > now and it.kind == GATE) ~= (kind == GATE)
end

local made_rest
local function rest()
  if made_rest then return made_rest end
  made_rest = {}
  local rest, more = made_rest, more()
  -- A claim of permits does not pass an owner that holds their gate or waits for it.
  function rest.refused_at(gate)
    if misused(gate, GATE) then return {'misused', names + 1} end
    local who, left = gate.holder, gate.holder and gate.holds_until - now or 0
    who = who or gate.queue and queue().hand_over(gate, 0)
    if gate.changed then keep(gate) end
    return who and {'held', who, left, max(gate.bar, floor), 0, GATE}
  end

  -- Others hold the name, or come before this claim. As a writer sees it: a reader may have to wait
  -- for a writer that waits for readers.
  function rest.held(it)
    local place = again > 0 and queue().join(it) or 0
    if it.changed then keep(it) end
    local bar = max(more.highest(it), floor)
    if it.ends > now then return {'held', it.owner, it.ends - now, bar, place, it.kind} end
    return {'held', it.reader, it.read_ends - now, bar, place, 0}
  end

  -- All readers at the head of the queue may enter with a reader.
  function rest.read(it)
    readers().read(it, owner, ttl, ballot)
    queue().leave(it)
    queue().hand_over(it, next_ballot)
    if it.changed then keep(it) end
  end

  return rest
end

-- With the bar of all names that it could have: one ballot above it is enough.
local function stale(seen, bar)
  for _, it in ipairs(seen) do
    if not it.holder or it.holder == owner then bar = max(bar, it.bar) end
  end
  return {'stale', bar}
end

-- Why name number i is not granted. One that waits takes its place.
local function refusal(seen, i, follows)
  local it, bar = seen[i], max(seen[i].bar, floor)
  if follows > 0 and follows <= it.over then return {'lost', ''} end
  if misused(it, kind) then return {'misused', i} end
  -- A claim that becomes a reader without a gap: both owners have one number.
  local downgrades = is_reader and it.ends > now and string.gsub(it.owner, '/(%d+)$', '/s%1') == owner
  if it.holder and not downgrades then
    if it.holder ~= owner then
      return rest().held(it)
    end
    -- A floor is above its ballot if that was granted while the node was doubted, and it was taught
    -- since.
    local with = it.holds_with
    local is_late = ballot < with or ballot <= max(floor, it.over) or ballot <= it.fence and ballot ~= with
    -- Of a reader, the fence may be below what it was handed over with.
    return is_late and stale(seen, max(bar, with)) or nil
  end
  if ballot <= bar then return stale(seen, bar) end
  if downgrades or not it.queue or next_ballot <= ballot or not queue().has_others_before(it) then return end
  queue().hand_over(it, next_ballot)
  return rest().held(it)
end

local function take(it)
  if is_reader then return rest().read(it) end
  hold(it, owner, digits(kind), ballot, '1', ttl)
  if it.queue then queue().leave(it) end
  if it.changed then keep(it) end
end

return each(11, 4, function(at, key)
  local mode, follows
  first, names, owner, mode, kind, ttl, ballot, follows = key, unpack(ARGV, at, at + 6)
  ticket, lasts, again, next_ballot = unpack(ARGV, at + 7, at + 10)
  names, kind, ttl, ballot = names - (mode == 'permit' and 1 or 0), kind + 0, ttl + 0, ballot + 0
  ticket, lasts, again, next_ballot = ticket + 0, lasts + 0, again + 0, next_ballot + 0
  is_reader = mode == 'reader'
  local seen = look_all()
  read_record()
  local refused = mode == 'permit' and rest().refused_at(look(key + names * group))
  if refused then return refused end
  for i = 1, names do
    local refused = refusal(seen, i, follows + 0)
    if refused then return refused end
  end
  for i = 1, names do take(seen[i]) end
end)
