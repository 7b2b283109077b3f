-- Makes, reads and changes the record, and puts a client's list in force: see docs/protocol.md.
-- KEYS    P..node, P..node:seen
-- ARGV    names    0
--         intent   'look' writes nothing; 'keep' checks the record, and renews the client's list if
--                  it is in force; 'make' also makes a missing record; 'put' also puts the client's
--                  list in force if no list is in force
--         new      the id of a record that this hello makes, or makes young again
--         process  the server's process by INFO on this connection; '': not known
--         list, says, lasts, fresh  the client's list: its hash, its text, and how long it stays in
--                  force. It is renewed only if it lapses within `fresh`
--         old, age a record that this hello makes gets this age if `old` is 'init', or if `old` is
--                  'first' and kept_all() is true; else 0
--         knew     the id that the client knew; 'held': it knew no id, but holds a lock; else ''
--         sync     a node that is not synced raises floor, mid and high to this ballot (at most to
--                  FAR ahead of TIME), if this hello makes a record that is old at once, or if the
--                  client's list is in force and `knew` is the record's id. -1: no sync
--         spare    how long the node keeps the ids that clients have seen
--         seen     'NAME ID NAME ID ..': for each node's name, the id that the client sees there
-- Returns hello; and if there is a record: ID, PROCESS, AGE, HIGH, FLOOR, SYNCED (1 or 0), WORD
--         (why the record was old at once, or ''); of the list in force LIST (its hash, or ''), MS
--         LEFT, MS IN FORCE, TEXT; and 'NAME ID AGE' for each id that clients have seen
local LEVELS = {look = 0, keep = 1, make = 2, put = 3}

return each(14, 1, function(at)
  local _, intent, new, process, mine, says, lasts, fresh, old, age, knew, sync
  _, intent, new, process, mine, says, lasts, fresh, old, age, knew, sync, spare, ids = unpack(ARGV, at, at + 13)
  local it, seen, level, is_old = fields(KEYS[1]), fields(SEEN), LEVELS[intent], false

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
    is_old = old == 'init' or (old == 'first' and kept_all(age))
    set({id = id, process = process, high = high, mid = mid, floor = floor, rotated = now})
    set({since = is_old and now - age or now, word = is_old and old})
  end
  local ends = it.list and min(it['until'], now + it.lasts) or 0
  if level >= LEVELS.keep then
    -- `process` is RUN, or RUN/REPLICATION after a promotion. Some time after the promotion, INFO
    -- may no longer show REPLICATION: this is still the same process.
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
    local knows = (is_old and it.word) or (it.list == mine and knew == id)
    if sync + 0 >= 0 and not it.synced and knows then
      local told = min(sync, micros + FAR)
      high, mid, floor = max(high, told), max(mid, told), max(floor, told)
      set({high = high, mid = mid, floor = floor, synced = '1'})
    end
    rotate()
  end
  local shows = level >= LEVELS.keep and it.list == mine
  see(seen, shows)
  local force = ends > now and it or {begun = now}
  local reply = {'hello', id, it.process, max(0, now - it.since), high, floor, it.synced and 1 or 0, it.word or ''}
  reply[9], reply[10], reply[11] = force.list or '', max(0, ends - now), max(0, now - force.begun)
  reply[12] = force.says or ''
  for field, since in pairs(seen) do reply[#reply + 1] = field .. ' ' .. digits(now - since) end
  return reply
end, true)
