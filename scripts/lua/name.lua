-- The keys of a name: docs/protocol.md says what is in them. A field that is not there is 0 or ''.
--
-- Lua makes the functions of a script anew at each call. Those that few operations need are made by
-- more(), readers() and queue(), when the first operation needs them.

local REMEMBERED = 3600000

-- The operation that is carried out, as its script says. Each name has `group` keys, the first name
-- from `first` on.
local names, owner, is_reader, kind, ttl, ballot, ticket, lasts, again, next_ballot
local first

-- Without memory Redis refuses a script only if its first write is one like HSET, ZADD or SET. So
-- claims begin with those, and are refused; everything else begins with others, and goes on.
local claims, has_written = false, false
local writes = true

-- Where its other keys are, behind it.at.
local READERS, WAITING, QUEUE, NOTE = 1, 2, 3, 4

local made_more
local function more()
  if made_more then return made_more end
  made_more = {}
  local more = made_more

  -- The highest ballot that was granted, withdrawn, released or revoked, or came with a renewal.
  function more.highest(it)
    return max(it.fence, it.read_fence or 0)
  end

  -- Changes a field, or removes it. keep() stores it.
  function more.put(it, field, value)
    it.changed = it.changed or {}
    it[field], it.changed[field] = value, value or false
  end

  -- The last of the readers, of those with ballots above this one; and how many there are.
  function more.last_reader(it, above)
    local last, many = nil, 0
    for reader, known in pairs(it.reading or {}) do
      many = many + 1
      if known.ballot > above and (not last or known.ends > it.reading[last].ends) then last = reader end
    end
    return last, many
  end

  -- Who reads has changed. Without readers the name's fence takes up theirs.
  function more.settle(it)
    it.reader = more.last_reader(it, -1)
    it.read_ends = it.reader and it.reading[it.reader].ends
    if it.reader then return end
    it.fence = more.highest(it)
    more.put(it, 'readers')
    more.put(it, 'read_fence')
  end

  -- What is stored of a reader.
  function more.reader(known)
    return format('%d %d %d', known.ends, known.ttl, known.ballot)
  end

  -- Writes again what is ahead of the clock. Without memory this goes on, except in claims: the first
  -- write removes a field that is not there, so that the key keeps its expiry.
  function more.write(key, field, value)
    if not writes then return end
    if not claims then call('HDEL', key, '') end
    call('HSET', key, field, value)
  end

  -- Who reads: each that does, the last of them, and those that are over.
  local function look_at_readers(it)
    local stored = call('HGETALL', KEYS[it.at + READERS])
    it.reading, it.over_readers = {}, {}
    for at = 1, #stored, 2 do
      local ends, lasts, with = match(stored[at + 1], '^(%d+) (%d+) (%d+)$')
      if ends and tonumber(ends) > now then
        local reader = {ends = tonumber(ends), ttl = tonumber(lasts), ballot = tonumber(with)}
        it.reading[stored[at]] = reader
        if reader.ends > now + reader.ttl then
          reader.ends = now + reader.ttl
          more.write(KEYS[it.at + READERS], stored[at], more.reader(reader))
        end
      else
        it.over_readers[#it.over_readers + 1] = stored[at]
      end
    end
    more.settle(it)
    local mine = is_reader and it.reading[owner]
    if mine then
      it.holder, it.holds_until, it.holds_with = owner, mine.ends, mine.ballot
    elseif it.reader and not is_reader and not it.holder then
      it.holder, it.holds_until, it.holds_with = it.reader, it.read_ends, it.read_fence
    end
  end

  function more.look(it)
    it.read_fence = tonumber(it.read_fence)
    -- It is no further ahead than it may be, unless the clock was set back.
    if it.revoked_until then
      it.revoked_until = min(tonumber(it.revoked_until), now + REMEMBERED)
      if it.revoked_until <= now then more.put(it, 'revoked_until') end
    end
    if it.readers then look_at_readers(it) end
    -- The ballots of readers need not be above each other.
    it.bar = is_reader and it.fence or more.highest(it)
  end

  -- Stores what put() has changed.
  function more.store(it)
    local sets, drops = {}, {}
    for field, value in pairs(it.changed) do
      if value then
        sets[#sets + 1] = field
        sets[#sets + 1] = value == true and '1' or type(value) == 'number' and digits(value) or value
      else
        drops[#drops + 1] = field
      end
    end
    if sets[1] then call('HSET', it.lock, unpack(sets)) end
    if drops[1] then call('HDEL', it.lock, unpack(drops)) end
    it.changed = nil
    if it.over_readers then
      for _, reader in ipairs(it.over_readers) do
        -- Unless it reads again by now.
        if not it.reading[reader] then call('HDEL', KEYS[it.at + READERS], reader) end
      end
      it.over_readers = nil
    end
  end

  return more
end

-- What is stored of a name, and who holds it: for a reader itself, or the writer that keeps it out;
-- for others the writer, or the last reader.
local function look(at)
  local lock, stored = KEYS[at], call('HGETALL', KEYS[at])
  -- A table that has room for all this need not grow.
  local it = {owner = false, ['until'] = false, ballot = false, count = false, fence = false, at = at}
  for i = 1, #stored, 2 do it[stored[i]] = stored[i + 1] end
  if stored[1] and not it.fence then error({err = 'ERR the key ' .. lock .. ' is no lock of this protocol'}) end
  it.at, it.lock, it.ends, it.fence = at, lock, (it['until'] or 0) + 0, (it.fence or 0) + 0
  it.over, it.ballot, it.kind, it.bar = (it.over or 0) + 0, (it.ballot or 0) + 0, (it.kind or 0) + 0, it.fence
  if it.ttl and it.ends > now + it.ttl then
    it.ends = now + it.ttl
    more().write(lock, 'until', digits(it.ends))
  end
  if it.ends > now then it.holder, it.holds_until, it.holds_with = it.owner, it.ends, it.ballot end
  if it.revoked_until or it.readers then more().look(it) end
  return it
end

local function look_all()
  local seen = {}
  for i = 1, names do seen[i] = look(first + (i - 1) * group) end
  return seen
end

-- Only readers may hold the name from now on.
local function free(it)
  call('HDEL', it.lock, 'until', 'ttl', 'owner', 'kind', 'ballot', 'count')
  it.ends, it.owner = 0, nil
end

-- Stores the fence, these fields and what put() has changed. The key expires when the floor is above
-- its fence.
local function keep(it, ...)
  local last, fence = max(it.ends, now), it.fence
  if it.read_ends then last, fence = max(last, it.read_ends), more().highest(it) end
  local till = last
  if fence > micros + FAR then till = max(last, math.ceil(fence / 1000)) end
  if it.revoked_until then till = max(till, it.revoked_until - KEEP) end
  local lasts = digits(till + KEEP - now)
  local done = not claims and call('PEXPIRE', it.lock, lasts) == 1
  call('HSET', it.lock, 'fence', digits(it.fence), ...)
  has_written = true
  if it.changed then more().store(it) end
  if not done then call('PEXPIRE', it.lock, lasts) end
  -- The ballot may have been too far ahead for the record when it was granted.
  if fence > last * 1000 then raise_high(fence) end
end

local function hold(it, who, what, with, count, lasts)
  it.owner, it.kind, it.ends, it.ttl = who, what + 0, now + lasts, lasts
  it.fence = max(it.fence, with)
  local till, ttl = digits(it.ends), digits(lasts)
  keep(it, 'owner', who, 'kind', what, 'ballot', digits(with), 'until', till, 'ttl', ttl, 'count', count)
  raise_high(it.fence)
end
