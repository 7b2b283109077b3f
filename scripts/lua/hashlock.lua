-- The hash lock, on one node. Several operations a call; each is atomic, and all or nothing over its names.
--
-- KEYS   for every operation, for every one of its names: the lock's key, the gate's key
--          lock   hash, one field: owner -> hold count; expires after the ttl; absent = free
--          gate   hash: fence = the highest ballot granted here or told; expires FENCE after its last change
-- ARGV   [1] fence retention, milliseconds (never less than 10 ttl is used), then six for every operation:
--          verb    claim | renew | release | inspect
--          names   how many names
--          owner   who asks
--          ttl     milliseconds
--          ballot  below 2^53
--          count   hold count
--
-- Returns {TIME in microseconds, one reply for every operation}:
--   claim    {granted} | {held, holder, its ttl in ms (-1: none), fence} | {stale, fence}
--   renew    {extended} | {healed} | {lost, holder}
--   release  {released, how many of the names were held}
--   inspect  {inspected, then for every name: holder or '', count, ttl in ms (-2: free), fence}
--   any      {error, what redis said}: this operation failed; its neighbours did not

local retention = tonumber(ARGV[1])

-- The holder of a lock, unless it is free or only `owner`'s.
local function stranger(held, owner)
  for i = 1, #held, 2 do
    if held[i] ~= owner then return held[i] end
  end
end

local function fence_of(gate)
  return redis.call('HGET', gate, 'fence') or '0'
end

local function raise(op, gate, fence)
  if tonumber(op.ballot) > tonumber(fence) then
    redis.call('HSET', gate, 'fence', op.ballot)
    redis.call('PEXPIRE', gate, math.max(retention, 10 * op.ttl))
  end
end

local function hold(op, lock)
  redis.call('HSET', lock, op.owner, op.count)
  redis.call('PEXPIRE', lock, op.ttl)
end

local verbs = {}

function verbs.claim(op)
  local fences = {}
  for i, lock in ipairs(op.locks) do
    local held, fence = redis.call('HGETALL', lock), fence_of(op.gates[i])
    local holder = stranger(held, op.owner)
    if holder then return {'held', holder, redis.call('PTTL', lock), fence} end
    if #held == 0 and tonumber(op.ballot) <= tonumber(fence) then return {'stale', fence} end
    fences[i] = fence
  end
  for i, lock in ipairs(op.locks) do
    hold(op, lock)
    raise(op, op.gates[i], fences[i])
  end
  return {'granted'}
end

function verbs.renew(op)
  local reply, fences = 'extended', {}
  for i, lock in ipairs(op.locks) do
    local held = redis.call('HGETALL', lock)
    local holder = stranger(held, op.owner)
    if holder then return {'lost', holder} end
    if #held == 0 then
      reply = 'healed'
      fences[i] = fence_of(op.gates[i])
    end
  end
  for i, lock in ipairs(op.locks) do
    if fences[i] then
      hold(op, lock)
      raise(op, op.gates[i], fences[i])
    else
      redis.call('PEXPIRE', lock, op.ttl)
    end
  end
  return {reply}
end

function verbs.release(op)
  local freed = 0
  for i, lock in ipairs(op.locks) do
    local held = redis.call('HGETALL', lock)
    if #held > 0 and not stranger(held, op.owner) then
      redis.call('DEL', lock)
      freed = freed + 1
    end
    raise(op, op.gates[i], fence_of(op.gates[i]))
  end
  return {'released', freed}
end

function verbs.inspect(op)
  local reply = {'inspected'}
  for i, lock in ipairs(op.locks) do
    local held = redis.call('HGETALL', lock)
    reply[#reply + 1] = held[1] or ''
    reply[#reply + 1] = held[2] or '0'
    reply[#reply + 1] = redis.call('PTTL', lock)
    reply[#reply + 1] = fence_of(op.gates[i])
  end
  return reply
end

local function said(problem)
  return {'error', type(problem) == 'table' and problem.err or tostring(problem)}
end

local time = redis.call('TIME')
local replies = {time[1] * 1000000 + time[2]}
local key = 1
for at = 2, #ARGV, 6 do
  local op = {owner = ARGV[at + 2], ttl = tonumber(ARGV[at + 3]), ballot = ARGV[at + 4], count = ARGV[at + 5]}
  op.locks, op.gates = {}, {}
  for name = 1, tonumber(ARGV[at + 1]) do
    op.locks[name], op.gates[name] = KEYS[key], KEYS[key + 1]
    key = key + 2
  end
  local ok, reply = pcall(verbs[ARGV[at]], op)
  replies[#replies + 1] = ok and reply or said(reply)
end
return replies
