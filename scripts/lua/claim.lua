-- Takes names: all of them or none. The first name that refuses decides.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue
-- ARGV    names, owner
--         mode    'lock', 'reader' or 'permit'; 'gate', if the first name is a semaphore's gate
--         kind    what the hold is: see P{name}
--         ttl, ballot
--         follows of a reader that was a writer, the token of that; or 0
--         count   hold count; of a gate how many permits there are
--         ticket  place in the queue: us at which the acquire began
--         lasts   ms that a hand-over to it lasts
--         again   ms in which it asks again; 0: it does not wait. Of one name only
--         next    the ballot of a waiter that a free name is handed to; not above its own ballot: it
--                 overtakes all that wait
-- Returns nothing if all is granted, else
--         held, HOLDER, MS LEFT, BAR, PLACE, KIND    stale, BAR    lost, ''  its writer is over
--         misused, NAME, PERMITS  it is a gate, and this no claim of it, or of fewer permits; or,
--                                 with 0, it is claimed as a gate and held as a lock

claims = true
group = 4

local made_rest
local function rest()
  if made_rest then return made_rest end
  made_rest = {}
  local rest, more = made_rest, more()
  local reads = more.reads
  -- Of a claim that becomes a reader without a gap: both owners have one number.
  function rest.follows(it)
    return it.ends > now and string.gsub(it.owner, '/(%d+)$', '/s%1') == owner
  end

  function rest.misused(it)
    local is_gate = it.at == gate
    if it.permits then return (not is_gate or permits < it.permits) and it.permits end
    return is_gate and it.holder and it.holder ~= owner and 0
  end

  -- Others hold the name, or come before this claim. As a writer sees it: a reader may have to wait
  -- for a writer that waits for readers.
  function rest.held(it)
    if again > 0 then queue().join(it) elseif it.changed then keep(it) end
    local bar, place = max(it.fence, it.read_fence or 0, floor), queue().place(it)
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

local function stale(seen, bar)
  for _, it in ipairs(seen) do
    if not it.holder or it.holder == owner then bar = max(bar, it.bar or it.fence) end
  end
  return {'stale', bar}
end

-- Why name number i is not granted.
local function refusal(seen, i, follows)
  local it = seen[i]
  local bar = max(it.bar or it.fence, floor)
  if follows > 0 and follows <= it.over then return {'lost', ''} end
  local permits = (it.permits or gate) and rest().misused(it)
  if permits then return {'misused', i, permits} end
  local was_mine = is_reader and rest().follows(it)
  if it.holder and not was_mine then
    if it.holder ~= owner then
      return rest().held(it)
    end
    -- A floor is above its ballot if that was granted while the node was doubted, and it was taught
    -- since.
    local with = it.holds_with
    local is_late = ballot < with or ballot <= max(floor, it.over) or ballot <= it.fence and ballot ~= with
    return is_late and stale(seen, bar) or nil
  end
  if ballot <= bar then return stale(seen, bar) end
  if was_mine or not it.queue or next_ballot <= ballot or not queue().has_others_before(it) then return end
  queue().hand_over(it, next_ballot)
  return rest().held(it)
end

local function take(it, count)
  if it.at == gate then more().seat(it) end
  if is_reader then return rest().read(it) end
  hold(it, owner, kind, ballot, count, ttl)
  if it.queue then queue().leave(it) end
  if it.changed then keep(it) end
end

return each(12, 4, function(at, key)
  local mode, follows
  first, names, owner, mode, kind, ttl, ballot, follows = key, unpack(ARGV, at, at + 6)
  permits, ticket, lasts, again, next_ballot = unpack(ARGV, at + 7, at + 11)
  names, ttl, ballot, permits, ticket = names + 0, ttl + 0, ballot + 0, permits + 0, ticket + 0
  lasts, again, next_ballot = lasts + 0, again + 0, next_ballot + 0
  is_reader, gate = mode == 'reader', mode == 'gate' and key
  local seen = look_all()
  read_record()
  for i = 1, names do
    local refused = refusal(seen, i, follows + 0)
    if refused then return refused end
  end
  for i = 1, names do take(seen[i], mode == 'lock' and digits(permits) or '1') end
end)
