-- Takes names: all of them or none. The first name that refuses decides.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue
-- ARGV    names, owner
--         mode    'lock', 'reader' or 'permit'; 'gate', if the first name is a semaphore's gate
--         kind    what the hold is: see P{name}
--         ttl, ballot
--         follows of a reader that was a writer, the token of that; or 0
--         count   hold count; of a gate how many permits there are
--         wait    ms to stay in the queue; 0: overtake nobody, do not wait; -1: ignore the queue
--         ticket  place in the queue: us at which the acquisition began
--         grace   ms that a turn lasts which this claim gives; and if it waits, that its own must
--         hand    ms that a hand-over to it lasts; 0: it wants none
-- Returns nothing if all is granted, else
--         held, HOLDER, MS LEFT, BAR, PLACE, KIND    stale, BAR    lost, ''  its writer is over
--         reserved, WHOSE TURN, MS LEFT, BAR, PLACE
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
  -- ms. A waiter asks again before that has passed twice. How far from the head of the queue a
  -- reader looks for a writer.
  local SILENT, HEAD = 10000, 128

  -- The first writer that waits comes before a reader, unless it is far behind or has died: while
  -- others read, nobody gives it a turn that would end.
  local function first_writer(it)
    local line = call('ZRANGE', KEYS[it.at + QUEUE], 0, HEAD - 1, 'WITHSCORES')
    for at = 1, #line, 2 do
      local is_writer = not reads(line[at])
      if is_writer and queue().registered(it, line[at]).age < SILENT then return line[at], line[at + 1] end
    end
  end

  -- By bytes: Lua compares texts as the server's locale does.
  local function is_less(one, other)
    for at = 1, #one do
      local left, right = string.byte(one, at), string.byte(other, at) or -1
      if left ~= right then return left < right end
    end
    return #one < #other
  end

  -- Who comes before this claim to a name that nobody keeps from it; and for how long, if it has a
  -- turn.
  function rest.before(it)
    if wait < 0 or it.turn == owner then return end
    if it.turn and not (is_reader and reads(it.turn)) then return it.turn, it.turn_until - now end
    if not it.queue then return end
    local next, place
    if is_reader then
      next, place = first_writer(it)
    else
      next, place = unpack(call('ZRANGE', KEYS[it.at + QUEUE], 0, 0, 'WITHSCORES'))
    end
    if not next or next == owner then return end
    local mine, theirs = tonumber(ticket), tonumber(place)
    if wait > 0 and (mine < theirs or mine == theirs and is_less(owner, next)) then return end
    return next
  end

  -- Of a claim that becomes a reader without a gap: both owners have one number.
  function rest.follows(it)
    return it.ends > now and string.gsub(it.owner, '/(%d+)$', '/s%1') == owner
  end

  function rest.misused(it)
    local is_gate = it.at == gate
    if it.permits then return (not is_gate or permits < it.permits) and it.permits end
    return is_gate and it.holder and it.holder ~= owner and 0
  end

  -- Waits for all names: while not all are free, no later claim gets one of them first again and
  -- again.
  function rest.wait(seen)
    for _, it in ipairs(seen) do
      if wait > 0 and it.holder ~= owner then queue().join(it) end
    end
  end

  -- The owner reads the name: readers behind it may enter as well.
  function rest.read(it)
    if it.turn and (it.turn == owner or not reads(it.turn)) then more.end_turn(it) end
    readers().read(it)
    queue().leave(it)
    if queue().is_open(it) then queue().give(it) end
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
      rest().wait(seen)
      return {'held', it.holder, it.holds_until - now, bar, queue().place(it), it.reader and 0 or it.kind}
    end
    -- A floor is above its ballot if that was granted while the node was doubted, and it was taught
    -- since.
    local with = it.holds_with
    local is_late = ballot < with or ballot <= max(floor, it.over) or ballot <= it.fence and ballot ~= with
    return is_late and stale(seen, bar) or nil
  end
  if ballot <= bar then return stale(seen, bar) end
  if was_mine or not it.queue and not it.turn then return end
  local next, left = rest().before(it)
  if not next then return end
  local is_due = not left and queue().is_open(it)
  rest().wait(seen)
  if is_due then left = queue().give(it) end
  return {'reserved', next, left or grace, bar, queue().place(it)}
end

local function take(it, count)
  if it.at == gate then more().seat(it) end
  if is_reader then return rest().read(it) end
  if it.turn then more().end_turn(it) end
  hold(it, owner, kind, ballot, count, now + ttl)
  if it.queue then queue().leave(it) end
  if it.changed then keep(it) end
end

return each(12, 4, function(at, key)
  local mode, follows
  names, owner, mode, kind, ttl, ballot, follows, permits, wait, ticket, grace, hand = unpack(ARGV, at, at + 11)
  first = key
  names, ttl, ballot, permits, wait = names + 0, ttl + 0, ballot + 0, permits + 0, wait + 0
  grace, hand = grace + 0, hand + 0
  is_reader, gate = mode == 'reader', mode == 'gate' and key
  local seen = look_all()
  read_record()
  for i = 1, names do
    local refused = refusal(seen, i, follows + 0)
    if refused then return refused end
  end
  for i = 1, names do take(seen[i], mode == 'lock' and digits(permits) or '1') end
end)
