-- Helpers of hello.lua: they check INFO, and keep the ids that clients have seen on nodes.

local SEEN = KEYS[2]
-- The arguments `spare` and `seen` of hello.lua.
local spare, ids

local function fields(key)
  local stored, all = call('HGETALL', key), {}
  for i = 1, #stored, 2 do all[stored[i]] = stored[i + 1] end
  return all
end

-- PEXPIRE comes first: it needs no memory (see common.lua).
local function write(key, field, value)
  call('PEXPIRE', SEEN, spare)
  if value then call('HSET', key, field, value) else call('HDEL', key, field) end
  call('PEXPIRE', SEEN, spare)
end

-- Whether the node cannot have forgotten a lock that may still be held: see *first use* in
-- docs/protocol.md. `age` is 1.25 max_ttl.
local function kept_all(age)
  local info = call('INFO', 'server') .. call('INFO', 'stats') .. call('INFO', 'replication')
  local uptime, commands = match(info, 'uptime_in_seconds:(%-?%d+)') or 0, call('INFO', 'commandstats')
  -- INFO also lists commands that were only denied, with 0 calls.
  local ran = match(commands, 'cmdstat_flush%a+:calls=[1-9]') or match(commands, 'cmdstat_swapdb:calls=[1-9]')
  if ran then return false end
  return uptime * 1000 - 1000 > age + 0 and match(info, 'evicted_keys:0%s') and match(info, 'master_replid2:0+%s')
end

-- Removes old ids from `seen`. If `shows` (this hello may write, and the client's list is in
-- force), also removes them on the node, and stores the ids that the client sees.
local function see(seen, shows)
  for field, since in pairs(seen) do
    if now < since + 0 or now - since >= spare + 0 then
      seen[field] = nil
      if shows then call('HDEL', SEEN, field) end
    end
  end
  for field in string.gmatch(shows and ids or '', '%S+ %S+') do
    if not seen[field] or (now - seen[field]) * 4 >= spare + 0 then
      seen[field] = digits(now)
      write(SEEN, field, seen[field])
    end
  end
end
