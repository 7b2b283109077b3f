-- Makes, reads and writes the node's record, and puts a client's list in force: docs/protocol.md says
-- when. No other script makes the record.
--
-- KEYS    P..node, P..node:seen
-- ARGV    names    0
--         intent   'look' writes nothing; 'keep'; 'make'; 'put': each does what those before it do
--         new      the id of the record, if it is made now, or doubted from now on
--         process  that the client sees on this connection; or ''
--         list, says, lasts     of the client: its hash, its text, for how long it is put in force
--         fresh    it is put in force again if less than that is left
--         old      why a record that is made now is old at once: 'init'; 'first', if nobody can have used
--                  the node before; or ''. And age: how old that is
--         knew     an id that the client knew of this node; 'held': it holds a lock; or ''
--         sync     a ballot that floor, mid and high are raised to, unless the node is synced; or -1.
--                  Only if the record is made old now, or by a client of the list in force that knew it
--         spare    for how long ids that were seen are kept
--         seen     'NAME ID NAME ID ..', with which ids the client sees nodes
-- Returns hello; and if there is a record: ID, PROCESS, AGE, HIGH, FLOOR, SYNCED (1 or 0), WHY it was old
--         at once, or ''; of the list in force, or '', 0, 0, '': LIST, MS LEFT, MS SINCE THEN, WHAT IT
--         SAYS; and 'NAME ID AGE' of all that clients have seen

local SEEN, LEVELS = KEYS[2], {look = 0, keep = 1, make = 2, put = 3}

local function fields(key)
  local stored, all = call('HGETALL', key), {}
  for i = 1, #stored, 2 do all[stored[i]] = stored[i + 1] end
  return all
end

-- Whether nobody can have used the node before: its process has been up for longer than locks last,
-- never was a replica, and removed no keys but those that it was told to remove.
local function kept_all(age)
  local info = call('INFO', 'server') .. call('INFO', 'stats') .. call('INFO', 'replication')
  local uptime, commands = match(info, 'uptime_in_seconds:(%-?%d+)') or 0, call('INFO', 'commandstats')
  if match(commands, 'cmdstat_flush%a+:') or match(commands, 'cmdstat_swapdb:') then return false end
  return uptime * 1000 - 1000 > age + 0 and match(info, 'evicted_keys:0%s') and match(info, 'master_replid2:0+%s')
end

return each(14, 1, function(at)
  local _, intent, new, process, mine, says, lasts, fresh, old, age, knew, sync, spare, ids = unpack(ARGV, at, at + 13)
  local it, seen, level, is_old = fields(KEYS[1]), fields(SEEN), LEVELS[intent], false

  -- PEXPIRE first, stored or not: without memory Redis refuses a script whose first write is HSET.
  local function write(key, field, value)
    call('PEXPIRE', SEEN, spare)
    if value then call('HSET', key, field, value) else call('HDEL', key, field) end
    call('PEXPIRE', SEEN, spare)
  end
  local function set(changes)
    for field, value in pairs(changes) do
      it[field] = type(value) == 'number' and digits(value) or value
      write(KEYS[1], field, it[field])
    end
  end
  local function doubt()
    id = new
    set({id = id, since = now, word = false, synced = false})
  end

  if not it.id then
    if next(it) then error({err = 'ERR the key ' .. KEYS[1] .. ' is no record of this protocol: delete it'}) end
    if level < LEVELS.make or process == '' then return {'hello'} end
    id, high, mid, floor, rotated = new, 0, 0, 0, now
    is_old = old == 'init' or old == 'first' and kept_all(age)
    set({id = id, process = process, high = high, mid = mid, floor = floor, rotated = now})
    set({since = is_old and now - age or now, word = is_old and old})
  end
  local ends = it.list and min(it['until'], now + it.lasts) or 0
  if level >= LEVELS.keep then
    -- One that was promoted forgets that, and is the same still.
    local is_same = it.process == process or string.sub(it.process, 1, #process + 1) == process .. '/'
    if process ~= '' and not is_same then
      set({process = process})
      doubt()
    end
    if it.word and knew ~= '' and knew ~= id then doubt() end
    if it.since + 0 > now then set({since = now}) end
    if it.list and ends <= now then
      set({list = false, ['until'] = false, begun = false, says = false, lasts = false})
    end
    if not it.list and level == LEVELS.put then
      set({list = mine, ['until'] = 0, begun = now, says = says, lasts = lasts})
    end
    if it.list == mine and ends < now + fresh then ends = now + lasts end
    if it.list and ends ~= it['until'] + 0 then set({['until'] = ends}) end
    local knows = is_old and it.word or it.list == mine and knew == id
    if sync + 0 >= 0 and not it.synced and knows then
      local told = min(sync, micros + FAR)
      high, mid, floor = max(high, told), max(mid, told), max(floor, told)
      set({high = high, mid = mid, floor = floor, synced = '1'})
    end
    rotate()
  end
  local shows = level >= LEVELS.keep and it.list == mine
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
  local force = ends > now and it or {begun = now}
  local reply = {'hello', id, it.process, max(0, now - it.since), high, floor, it.synced and 1 or 0, it.word or ''}
  reply[9], reply[10], reply[11] = force.list or '', max(0, ends - now), max(0, now - force.begun)
  reply[12] = force.says or ''
  for field, since in pairs(seen) do reply[#reply + 1] = field .. ' ' .. digits(now - since) end
  return reply
end, true)
