-- The hash lock, on one node. Several operations a call; each is atomic, and all or nothing over its names.
--
-- KEYS   for every operation, for every one of its names: the lock's key, the gate's key, the line's key
--          lock   hash, one field: owner -> hold count; expires after the ttl; absent = free
--          gate   hash: fence = the highest ballot granted here or told; turn, turn_until = who may claim the free lock first, until when
--                 (ms of this node's time); line = 1 while somebody may wait; expires RETENTION after its last change
--          line   sorted set: acquisition -> ticket, oldest first; expires with the longest wait in it
-- ARGV   [1] RETENTION of fences, ms (never less than 10 ttl is used)
--        [2] what wake-up channels begin with; the client follows
--        then ten for every operation:
--          verb    claim | pass | renew | release | inspect
--          names   how many names
--          owner   who asks: {client}/{acquisition}.{round}
--          ttl     ms
--          ballot  below 2^53
--          count   hold count
--          wait    ms to stay in line for; 0: overtake nobody and do not wait; -1: ignore the line. Of a release: more than 0 requeues
--          ticket  place in the line: microsecond at which the acquisition began
--          grace   ms that a turn lasts
--          next    of a pass: who takes over
--
-- Returns {TIME in microseconds, why wake-ups could not be published or '', one reply for every operation}:
--   claim    {granted} | {held, holder, its ttl in ms (-1: none), fence} | {stale, fence} | {reserved, whose turn, ms left, fence, 1 if next in line}
--   pass     {passed, 1 if somebody waits} | as a claim of `next` that does not wait
--   renew    {extended} | {healed} | {lost, holder}
--   release  {released, how many of the names were held}
--   inspect  {inspected, then for every name: holder or '', count, ttl in ms (-2: free), fence, line length, whose turn or '', ms left}
--   any      {error, what redis said}: this operation failed; its neighbours did not
--
-- Publishes '{acquisition} {ms}' to the client of the first in line when its turn comes (0), and to the one behind it (when to ask).
-- A wake-up that may not be published (the user lacks the right to the channel) changes nothing else: who waits asks later by itself.

-- ms.
local LONGEST_TURN = 60000

local retention, channel = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

-- The holder of a lock, unless it is free or only `owner`'s.
local function stranger(held, owner)
  for i = 1, #held, 2 do
    if held[i] ~= owner then return held[i] end
  end
end

-- What is stored of an operation's name number i.
local function look(op, i)
  local held = redis.call('HGETALL', op.locks[i])
  local gate = redis.call('HMGET', op.gates[i], 'fence', 'turn', 'turn_until', 'line')
  local left = (tonumber(gate[3]) or 0) - now
  -- Turns last seconds: this node's clock was set back since, and whoever has it may be gone.
  if left > LONGEST_TURN then left = 0 end
  local running = gate[2] and left > 0
  return {
    free = #held == 0,
    holder = stranger(held, op.owner),
    fence = gate[1] or '0',
    stored = gate[2],
    turn = running and gate[2] or nil,
    left = running and left or 0,
    queued = gate[4],
  }
end

local function keep(op, i)
  redis.call('PEXPIRE', op.gates[i], math.max(retention, 10 * op.ttl))
end

local function raise(op, i, fence)
  if tonumber(op.ballot) > tonumber(fence) then
    redis.call('HSET', op.gates[i], 'fence', op.ballot)
    keep(op, i)
  end
end

local function hold(op, i)
  redis.call('HSET', op.locks[i], op.owner, op.count)
  redis.call('PEXPIRE', op.locks[i], op.ttl)
end

local function acquisition(owner)
  return string.match(owner, '^(.*)%.%d+$') or owner
end

local unheard = ''

local function wake(who, after)
  local client, number = string.match(who, '^(.*)/(%d+)$')
  if not client then return end
  local sent = redis.pcall('PUBLISH', channel .. client, number .. ' ' .. after)
  if type(sent) == 'table' and sent.err then unheard = sent.err end
end

local function join(op, i)
  if op.wait <= 0 then return end
  redis.call('ZADD', op.lines[i], op.ticket, acquisition(op.owner))
  if redis.call('PTTL', op.lines[i]) < op.wait then redis.call('PEXPIRE', op.lines[i], op.wait) end
  redis.call('HSET', op.gates[i], 'line', 1)
  keep(op, i)
end

local function leave(op, i, seen, who)
  if not seen.queued then return end
  redis.call('ZREM', op.lines[i], who)
  if redis.call('EXISTS', op.lines[i]) == 0 then redis.call('HDEL', op.gates[i], 'line') end
end

local function over(op, i, seen)
  if seen.stored then redis.call('HDEL', op.gates[i], 'turn', 'turn_until') end
end

-- Gives the first in line its turn, which takes it out of the line.
local function give(op, i)
  local waiting = redis.call('ZRANGE', op.lines[i], 0, 1)
  if waiting[1] then
    redis.call('ZREM', op.lines[i], waiting[1])
    redis.call('HSET', op.gates[i], 'turn', waiting[1], 'turn_until', now + op.grace)
    keep(op, i)
    wake(waiting[1], 0)
  end
  if waiting[2] then
    wake(waiting[2], op.grace)
  else
    redis.call('HDEL', op.gates[i], 'line')
  end
end

-- 1 if this claim waits and will have the next turn.
local function is_next(op, i)
  return op.wait > 0 and redis.call('ZRANK', op.lines[i], acquisition(op.owner)) == 0 and 1 or 0
end

-- Who comes before this claim to the free lock number i, and for how long; nobody if it may have it.
local function before(op, i, seen)
  if op.wait < 0 then return end
  local me = acquisition(op.owner)
  if seen.turn then
    if seen.turn ~= me then return seen.turn, seen.left, false end
    return
  end
  if not seen.queued then return end
  local first = redis.call('ZRANGE', op.lines[i], 0, 0, 'WITHSCORES')
  if not first[1] or first[1] == me then return end
  local ticket, theirs = tonumber(op.ticket), tonumber(first[2])
  if op.wait > 0 and (ticket < theirs or ticket == theirs and me < first[1]) then return end
  return first[1], op.grace, true
end

local verbs = {}

function verbs.claim(op)
  local seen = {}
  for i = 1, #op.locks do
    local it = look(op, i)
    if it.holder then
      join(op, i)
      return {'held', it.holder, redis.call('PTTL', op.locks[i]), it.fence}
    end
    if it.free then
      if tonumber(op.ballot) <= tonumber(it.fence) then return {'stale', it.fence} end
      local who, left, due = before(op, i, it)
      if who then
        join(op, i)
        if due then give(op, i) end
        return {'reserved', who, left, it.fence, is_next(op, i)}
      end
    end
    seen[i] = it
  end
  for i, it in ipairs(seen) do
    hold(op, i)
    raise(op, i, it.fence)
    leave(op, i, it, acquisition(op.owner))
    over(op, i, it)
  end
  return {'granted'}
end

function verbs.pass(op)
  local seen, mine = {}, true
  for i = 1, #op.locks do
    seen[i] = look(op, i)
    mine = mine and not seen[i].holder and not seen[i].free
  end
  for i, it in ipairs(seen) do
    if mine and tonumber(op.ballot) <= tonumber(it.fence) then return {'stale', it.fence} end
  end
  local from = acquisition(op.owner)
  for i, it in ipairs(seen) do leave(op, i, it, from) end
  op.owner = op.next
  if not mine then return verbs.claim(op) end
  local waiting = 0
  for i, it in ipairs(seen) do
    redis.call('DEL', op.locks[i])
    hold(op, i)
    raise(op, i, it.fence)
    leave(op, i, it, acquisition(op.owner))
    if it.queued and redis.call('EXISTS', op.lines[i]) == 1 then waiting = 1 end
  end
  return {'passed', waiting}
end

function verbs.renew(op)
  local reply, missing = 'extended', {}
  for i, lock in ipairs(op.locks) do
    local held = redis.call('HGETALL', lock)
    local holder = stranger(held, op.owner)
    if holder then return {'lost', holder} end
    if #held == 0 then
      local it = look(op, i)
      if it.turn then return {'lost', it.turn} end
      reply, missing[i] = 'healed', it
    end
  end
  for i, lock in ipairs(op.locks) do
    if missing[i] then
      hold(op, i)
      raise(op, i, missing[i].fence)
    else
      redis.call('PEXPIRE', lock, op.ttl)
    end
  end
  return {reply}
end

function verbs.release(op)
  local freed, me = 0, acquisition(op.owner)
  for i, lock in ipairs(op.locks) do
    local it = look(op, i)
    local mine = not it.free and not it.holder
    if mine then
      redis.call('DEL', lock)
      freed = freed + 1
    end
    raise(op, i, it.fence)
    if op.wait > 0 then join(op, i) else leave(op, i, it, me) end
    local turn = it.turn
    if turn == me then
      over(op, i, it)
      turn = nil
    end
    if not it.holder and not turn and (it.queued or op.wait > 0) then give(op, i) end
  end
  return {'released', freed}
end

function verbs.inspect(op)
  local reply = {'inspected'}
  for i, lock in ipairs(op.locks) do
    local held, it = redis.call('HGETALL', lock), look(op, i)
    local ttl, line = redis.call('PTTL', lock), redis.call('ZCARD', op.lines[i])
    for _, part in ipairs({held[1] or '', held[2] or '0', ttl, it.fence, line, it.turn or '', it.left}) do
      reply[#reply + 1] = part
    end
  end
  return reply
end

local function said(problem)
  return {'error', type(problem) == 'table' and problem.err or tostring(problem)}
end

local replies = {micros, ''}
local key = 1
for at = 3, #ARGV, 10 do
  local op = {
    owner = ARGV[at + 2],
    ttl = tonumber(ARGV[at + 3]),
    ballot = ARGV[at + 4],
    count = ARGV[at + 5],
    wait = tonumber(ARGV[at + 6]),
    ticket = ARGV[at + 7],
    grace = tonumber(ARGV[at + 8]),
    next = ARGV[at + 9],
    locks = {}, gates = {}, lines = {},
  }
  for name = 1, tonumber(ARGV[at + 1]) do
    op.locks[name], op.gates[name], op.lines[name] = KEYS[key], KEYS[key + 1], KEYS[key + 2]
    key = key + 3
  end
  local ok, reply = pcall(verbs[ARGV[at]], op)
  replies[#replies + 1] = ok and reply or said(reply)
end
replies[2] = unheard
return replies
