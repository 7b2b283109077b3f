-- Whose votes the clients of this node count.
--
-- KEYS    P..node, P..node:roster
-- ARGV    names    1
--         verb     'enrol', 'retire' or 'reset'
--         servers  of enrol, with spaces between: each a run id, behind '<' those before it
--         nodes, protocol
--         ttl      the longest ttl of the client's locks; above a day it is unlisted
--         lasts    how long an entry lasts at least; 0 asks and writes nothing
-- Returns listed, unlisted (nothing was written), retired or reset, then the roster as it was:
--         NODES, PROTOCOL (0 if it is empty), LONGEST ttl, MS until the last entry ends, MS since
--         the node was retired (-1: it was not), RUN IDS

-- ms. How much longer than its client's longest ttl an entry lasts at least; and how much longer it
-- is written for, so that of many clients one writes it, now and then.
local ROSTER, ROSTER_SPARE, LONGEST_TTL = 15000, 5000, 86400000

-- RUN also names what the process was a replica of.
local PROCESS = match(RUN, '^[^/]*')

-- What has not expired. Nothing lasts longer than it was written for, unless the clock was set back
-- since.
local function roster(key)
  local stored, it = call('HGETALL', key), {entries = {}, told = {}, dead = {}, most = 0, lasts = 0}
  local servers, list = {}, {}
  local function live(ends, most)
    local limit = now + most + ROSTER + ROSTER_SPARE
    it.stepped = it.stepped or ends > limit
    return min(ends, limit)
  end
  for i = 1, #stored, 2 do
    local field, ends = stored[i], tonumber(stored[i + 1])
    local kind, what = match(field, '^(.)(.*)$')
    if kind == '/' then
      servers[what] = ends
    elseif kind ~= '=' then
      list[field] = stored[i + 1]
    elseif ends > now then
      it.told[what], it.most = live(ends, what), max(it.most, tonumber(what))
    else
      it.dead[#it.dead + 1] = field
    end
  end
  for run, ends in pairs(servers) do
    if ends > now and list.r == PROCESS then
      it.entries[run] = live(ends, it.most)
      it.lasts = max(it.lasts, it.entries[run] - now)
    else
      it.dead[#it.dead + 1] = '/' .. run
    end
  end
  if not next(it.entries) then list = {n = 0, p = 0} end
  it.nodes, it.protocol = tonumber(list.n) or 0, tonumber(list.p) or 0
  return it
end

-- Puts the servers of a list in, each in the room of those before it, and for as long as those had
-- it: votes may rest on them. Whether they fit.
local function enter(it, op, ends)
  local fits, lasts, size = not next(it.entries) or it.nodes == op.nodes and it.protocol == op.protocol, {}, 0
  for server in string.gmatch(op.servers, '%S+') do
    local run = match(server, '^[^<]+')
    lasts[run] = max(it.entries[run] or 0, ends)
    for before in string.gmatch(server, '<([^<]+)') do lasts[run] = max(lasts[run], it.entries[before] or 0) end
  end
  for run in string.gmatch(op.servers, '<([^ <]+)') do
    if it.entries[run] then it.dead[#it.dead + 1] = '/' .. run end
    it.entries[run] = nil
  end
  for run, till in pairs(lasts) do it.entries[run] = till end
  for _ in pairs(it.entries) do size = size + 1 end
  return fits and size <= op.nodes
end

-- Takes note of a client's longest ttl. Shorter ones that end sooner say nothing more.
local function tell(it, ttl, ends)
  local needed = ttl > 0
  for known, till in pairs(it.told) do
    if tonumber(known) <= ttl and till <= ends then
      it.told[known] = nil
      it.dead[#it.dead + 1] = '=' .. known
    elseif tonumber(known) >= ttl and till >= ends then
      needed = false
    end
  end
  if needed then it.told[digits(ttl)] = ends end
end

-- Whether all that is to be written is there until then, and nothing is to go: a clock that was set
-- back must not keep what it let in.
local function has_all(it, op, till)
  if it.stepped then return false end
  for run in string.gmatch(op.servers, '<([^ <]+)') do
    if it.entries[run] then return false end
  end
  for server in string.gmatch(op.servers, '%S+') do
    if (it.entries[match(server, '^[^<]+')] or 0) < till then return false end
  end
  for ttl, ends in pairs(it.told) do
    if tonumber(ttl) >= op.ttl and ends >= till then return true end
  end
  return op.ttl <= 0
end

local function reply(word, it)
  local since = tonumber(call('HGET', KEYS[1], 'retired'))
  local told = {word, it.nodes, it.protocol, it.most, it.lasts, since and max(0, now - since) or -1}
  for run in pairs(it.entries) do told[#told + 1] = run end
  return told
end

-- Its roster goes on: clients of other lists must find each other out there.
local function retire(it)
  read_record()
  local since = call('HGET', KEYS[1], 'retired') or digits(now)
  -- First: without memory Redis refuses a script's HSET, unless the script has written before.
  call('HDEL', KEYS[1], 'retired')
  call('HSET', KEYS[1], 'retired', since)
  return reply('retired', it)
end

local function reset(it)
  local told = reply('reset', it)
  call('HDEL', KEYS[1], 'retired')
  return told
end

local function enrol(it, op, key)
  local till = now + op.lasts
  local ends, known, told = till + ROSTER_SPARE, has_all(it, op, till), reply('listed', it)
  if op.ttl > LONGEST_TTL or not enter(it, op, ends) then
    told[1] = 'unlisted'
    return told
  end
  if op.lasts <= 0 or op.servers == '' or known then return told end
  tell(it, op.ttl, ends)
  -- First, and whether it is there or not.
  call('PEXPIRE', key, digits(op.lasts))
  for _, field in ipairs(it.dead) do call('HDEL', key, field) end
  call('HSET', key, 'n', digits(op.nodes), 'p', digits(op.protocol), 'r', PROCESS)
  local last = 0
  for kind, all in pairs({['/'] = it.entries, ['='] = it.told}) do
    for what, till in pairs(all) do
      call('HSET', key, kind .. what, digits(till))
      last = max(last, till)
    end
  end
  call('PEXPIRE', key, digits(last - now))
  return told
end

return each(7, 1, function(at, key)
  local names, verb, servers, nodes, protocol, ttl, lasts = unpack(ARGV, at, at + 6)
  local it = roster(KEYS[key])
  if verb == 'retire' then return retire(it) end
  if verb == 'reset' then return reset(it) end
  local op = {
    servers = servers, nodes = tonumber(nodes), protocol = tonumber(protocol), ttl = tonumber(ttl), lasts = tonumber(lasts)
  }
  return enrol(it, op, KEYS[key])
end)
