-- Takes names: all of them or none. The first name that refuses decides.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue
-- ARGV    names, owner: {client}/{acquisition}.{round}
--         mode    'lock', 'reader' or 'permit'; 'gate', if the first name is a semaphore's gate
--         ttl, ballot
--         count   hold count; of a gate how many permits there are
--         wait    ms to stay in the queue; 0: overtake nobody, do not wait; -1: ignore the queue
--         ticket  place in the queue: us at which the acquisition began
--         grace   ms that a turn lasts which this claim gives; and if it waits, that its own must
--         hand    ms that a hand-over to it lasts; 0: it wants none
-- Returns nothing if all is granted with its own ballot, else
--         granted, BALLOT  with a higher one: the owner held a name with it
--         held, HOLDER, MS LEFT, BAR, PLACE    stale, BAR    lost, ''  the owner was revoked
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
  local acquisition, reads = more.acquisition, more.reads
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
    local me = acquisition(owner)
    if wait < 0 or it.turn == me then return end
    if it.turn and not (is_reader and reads(it.turn)) then return it.turn, it.turn_until - now end
    if not it.queue then return end
    local next, place
    if is_reader then
      next, place = first_writer(it)
    else
      next, place = unpack(call('ZRANGE', KEYS[it.at + QUEUE], 0, 0, 'WITHSCORES'))
    end
    if not next or next == me then return end
    local mine, theirs = tonumber(ticket), tonumber(place)
    if wait > 0 and (mine < theirs or mine == theirs and is_less(me, next)) then return end
    return next
  end

  -- Of a claim that becomes a reader without a gap: as both, the acquisition has one number.
  function rest.follows(it)
    if not is_reader or it.ends <= now or it.revoked then return false end
    return string.gsub(acquisition(it.owner), '/(%d+)$', '/s%1') == acquisition(owner)
  end

  function rest.was_revoked(it)
    if more.is_revoked(it, owner) then return true end
    local writer = is_reader and string.gsub(acquisition(owner), '/s(%d+)$', '/%1.')
    return writer and (it.revoked and find(it.owner, writer, 1, true) == 1
      or it.taken and find('\n' .. it.taken, '\n' .. writer, 1, true))
  end

  function rest.misused(it)
    local is_gate = it.at == gate
    if it.permits then return (not is_gate or permits < it.permits) and it.permits end
    return is_gate and it.holder and it.holder ~= owner and 0
  end

  -- Waits for all names: while not all are free, no later claim gets one of them first again and
  -- again. A late claim of an owner that was released waits for nothing.
  function rest.wait(seen)
    for _, it in ipairs(seen) do
      if wait > 0 and it.holder ~= owner and not more.is_gone(it, owner) then queue().join(it) end
    end
  end

  -- What a reader does when it has the name: those behind it may enter as well.
  function rest.read(it)
    if it.turn and (it.turn == acquisition(owner) or not reads(it.turn)) then more.end_turn(it) end
    if it.ends > now then it.ends = 0 end
    readers().admit(it)
    queue().leave(it)
    if queue().is_open(it) then queue().give(it) end
  end

  return rest
end

-- Why name number i is not granted. Returns also the ballot that the owner's own hold of it has.
local function refusal(seen, i)
  local it = seen[i]
  local bar = max(it.bar or it.fence, floor)
  if (it.revoked or it.taken or it.marked) and rest().was_revoked(it) then return {'lost', ''} end
  local permits = (it.permits or gate) and rest().misused(it)
  if permits then return {'misused', i, permits} end
  if it.holder == owner then
    local fence = is_reader and 0 or it.fence
    -- It was granted while the node was doubted, and the node was taught since.
    return max(ballot, fence) <= floor and {'stale', floor} or nil, fence
  end
  local follows = is_reader and rest().follows(it)
  if it.holder and not follows then
    rest().wait(seen)
    return {'held', it.holder, (it.holds_until or it.ends) - now, bar, queue().place(it)}
  end
  -- The release of a reader raises no fence that ballots of other readers must be above.
  if ballot <= bar or is_reader and more().is_gone(it, owner) then
    for _, other in ipairs(seen) do bar = max(bar, other.holder and 0 or other.bar or other.fence) end
    return {'stale', bar}
  end
  if follows or not it.queue and not it.turn then return end
  local next, left = rest().before(it)
  if not next then return end
  local is_due = not left and queue().is_open(it)
  rest().wait(seen)
  if is_due then left = queue().give(it) end
  return {'reserved', next, left or grace, bar, queue().place(it)}
end

local function take(it, top, count)
  if it.at == gate then more().seat(it) end
  if is_reader then return rest().read(it) end
  if it.turn then more().end_turn(it) end
  hold(it, owner, count, now + ttl, top)
  if it.queue then queue().leave(it) end
  if it.changed then keep(it) end
end

return each(10, 4, function(at, key)
  local mode
  first, names, owner, mode, ttl, ballot, permits, wait, ticket, grace, hand = key, unpack(ARGV, at, at + 9)
  local count = mode == 'lock' and permits or '1'
  names, ttl, ballot, wait, grace, hand = names + 0, ttl + 0, ballot + 0, wait + 0, grace + 0, hand + 0
  is_reader, gate, permits = mode == 'reader', mode == 'gate' and key, permits + 0
  local seen, top = look_all(), ballot
  read_record()
  for i = 1, names do
    local refused, fence = refusal(seen, i)
    if refused then return refused end
    top = max(top, fence or 0)
  end
  for i = 1, names do take(seen[i], top, count) end
  if top ~= ballot then return {'granted', top} end
end)
