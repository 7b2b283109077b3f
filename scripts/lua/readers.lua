-- What claims, renewals, releases and withdrawals do for readers, which hold a name together.

local made_readers
local function readers()
  if made_readers then return made_readers end
  made_readers = {}
  local readers, more, put = made_readers, more(), more().put

  -- It reads for so long, or as long as it did before, with this ballot or a higher one that it had. A
  -- writer whose time is over stays out if the clock goes back.
  function readers.read(it, who, ttl, ballot)
    local key, had = KEYS[it.at + READERS], it.reading and it.reading[who]
    local mine = {ends = now + ttl, ttl = ttl, ballot = max(ballot, had and had.ballot or 0)}
    if had and had.ends > mine.ends then mine.ends, mine.ttl = had.ends, had.ttl end
    it.reading = it.reading or {}
    it.reading[who] = mine
    more.settle(it)
    local lasts = digits(it.read_ends - now + KEEP)
    if not claims then call('PEXPIRE', key, lasts) end
    call('HSET', key, who, more.reader(mine))
    call('PEXPIRE', key, lasts)
    if it.owner then free(it) end
    put(it, 'readers', true)
    put(it, 'read_fence', max(it.read_fence or 0, ballot))
    keep(it)
    raise_high(ballot)
  end

  -- The owner reads no more, if its ballot is not above this one.
  function readers.dismiss(it)
    put(it, 'read_fence', max(it.read_fence or 0, ballot))
    it.mine = it.reading and it.reading[owner] and it.reading[owner].ballot <= ballot or false
    if it.mine then
      call('HDEL', KEYS[it.at + READERS], owner)
      it.reading[owner] = nil
    end
    more.settle(it)
  end

  return readers
end
