-- What claims, renewals and releases do for readers, which hold a name together.

local made_readers
local function readers()
  if made_readers then return made_readers end
  made_readers = {}
  -- How many released readers a node remembers.
  local readers, put, RELEASED = made_readers, more().put, 128

  -- What is over goes, and the key expires when nothing in it counts any more.
  local function keep_readers(it)
    local key = KEYS[it.at + READERS]
    call('ZREMRANGEBYSCORE', key, digits(-now), digits(now))
    it.read_ends = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
    call('PEXPIRE', key, digits(max(it.read_ends - now, KEEP)))
    put(it, 'readers', true)
  end

  -- The owner reads for another ttl.
  function readers.read(it)
    local key = KEYS[it.at + READERS]
    if not claims then call('PEXPIRE', key, digits(max(ttl, (it.read_ends or 0) - now, KEEP))) end
    call('ZADD', key, digits(now + ttl), owner)
    it.reader = it.reader or owner
    keep_readers(it)
  end

  -- One more reads the name, with its ballot.
  function readers.admit(it)
    readers.read(it)
    -- A writer whose time is over stays out if the clock goes back.
    it.ends = min(it.ends, 1)
    put(it, 'read_fence', max(it.read_fence or 0, ballot))
    keep(it, 'until', digits(it.ends), 'fence', digits(it.fence))
    heard(ballot)
  end

  -- The owner reads no more, and takes nothing by what comes late.
  function readers.dismiss(it)
    local key = KEYS[it.at + READERS]
    call('ZREM', key, owner .. '!')
    call('ZADD', key, digits(-now - KEEP), owner)
    local many = call('ZCOUNT', key, '-inf', '(' .. digits(-now)) - RELEASED
    if many > 0 then
      -- What seems to be of later was released before the clock was set back: that goes first.
      local later = call('ZCOUNT', key, '-inf', '(' .. digits(-now - KEEP))
      local from = later < many and RELEASED or later - many
      call('ZREMRANGEBYRANK', key, from, from + many - 1)
    end
    keep_readers(it)
    it.reader = it.read_ends > now and it.reader or nil
    put(it, 'read_fence', max(it.read_fence or 0, ballot))
    keep(it)
    heard(it.read_fence)
  end

  return readers
end
