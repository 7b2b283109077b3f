-- What few operations need: readers, which hold a name together, and the queue, with the hand-over to
-- its waiters.

local made
function more()
  if made then return made end

  -- Writes again what is ahead of the clock. Without memory this goes on, except in claims: the first
  -- write removes a field that is not there, so that the key keeps its expiry.
  local function write(key, field, value)
    if inspects then return end
    if not claims then call('HDEL', key, '') end
    call('HSET', key, field, value)
  end

  -- The last of the readers, of those with ballots above this one; and how many there are.
  local function last_reader(it, above)
    local last, many = nil, 0
    for reader, known in pairs(it.reading) do
      many = many + 1
      if known.ballot > above and (not last or known.ends > it.reading[last].ends) then last = reader end
    end
    return last, many
  end

  -- Who reads has changed. Without readers the name's fence takes up theirs.
  local function settle(it)
    it.reader = last_reader(it, -1)
    it.read_ends = it.reader and it.reading[it.reader].ends
    if not it.reader then it.fence, it.read_fence = max(it.fence, it.read_fence), 0 end
  end

  local function look(it)
    local key = KEYS[it.at + READERS]
    local stored = call('HGETALL', key)
    for at = 1, #stored, 2 do
      local ends, lasts, with = match(stored[at + 1], '^(%d+) (%d+) (%d+)$')
      if ends and ends + 0 > now then
        if ends + 0 > now + lasts then
          ends = now + lasts
          write(key, stored[at], format('%d %s %s', ends, lasts, with))
        end
        it.reading[stored[at]] = {ends = ends + 0, ttl = lasts + 0, ballot = with + 0}
      elseif not claims and not inspects then
        call('HDEL', key, stored[at])
      end
    end
    settle(it)
    local mine = is_reader and it.reading[owner]
    if mine then
      it.holder, it.holds_until, it.holds_with = owner, mine.ends, mine.ballot
    elseif it.reader and not is_reader and not it.holder then
      it.holder, it.holds_until, it.holds_with = it.reader, it.read_ends, it.read_fence
    end
  end

  -- It reads for so long, or as long as it did before, with this ballot or a higher one that it had. A
  -- writer whose time is over stays out if the clock goes back.
  local function read(it, who, ttl, ballot)
    local key, had = KEYS[it.at + READERS], it.reading[who] or {ends = 0, ballot = 0}
    local mine = {ends = now + ttl, ttl = ttl, ballot = max(ballot, had.ballot)}
    if had.ends > mine.ends then mine.ends, mine.ttl = had.ends, had.ttl end
    it.reading[who] = mine
    settle(it)
    local expires = digits(it.read_ends - now + KEEP)
    if not claims then call('PEXPIRE', key, expires) end
    call('HSET', key, who, format('%d %d %d', mine.ends, mine.ttl, mine.ballot))
    call('PEXPIRE', key, expires)
    if it.owner then free(it) end
    it.read_fence = max(it.read_fence, ballot)
    keep(it)
  end

  -- Who a waiter is, and what it said: how long a hand-over to it lasts, in what time it asks again,
  -- when it asked, what for. In a key of another type nobody waits. If the clock was set back since, it
  -- asked now.
  local function waiter(key, who, ticket)
    local client, mark, number = match(who, '^(.*)/(s?)(%d+)$')
    local it = {who = who, ticket = ticket + 0, reads = mark == 's', number = number}
    it.channel = client and string.sub(KEYS[1], 1, -5) .. 'wake:' .. client
    local text = try('HGET', key, who)
    local lasts, again, asked, kind = match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%d+) (%d+)$')
    if not lasts then return it end
    it.lasts, it.kind, it.age, it.is_silent = lasts + 0, kind, max(now - asked, 0), now - asked > 2 * again
    if now < asked + 0 then write(key, who, format('%s %s %d %s', lasts, again, now, kind)) end
    return it
  end

  -- Number `at` of the queue, of which some are read at a time. The first two know their places.
  local function waiting(it, at)
    local line = it.line or {}
    if not line[at] and not line.is_whole then
      local found = call('ZRANGE', KEYS[it.at + QUEUE], #line, #line + 2, 'WITHSCORES')
      for i = 1, #found, 2 do
        line[#line + 1] = waiter(KEYS[it.at + WAITING], found[i], found[i + 1])
        line[#line].knows = not it.line and i < 4
      end
      it.line, line.is_whole = line, #found < 6
    end
    return line[at]
  end

  local function wake(known, what)
    local done = known.channel and try('PUBLISH', known.channel, known.number .. ' ' .. what)
    -- This user may not publish.
    if type(done) == 'table' then unpublished = done.err end
  end

  -- Whether it asks again as it said, and its client has subscribed. A user who may not ask for that
  -- hands over to the dead too.
  local function lives(known)
    if known.lives then return true end
    if not known.channel or not known.lasts or known.is_silent then return false end
    local found = try('PUBSUB', 'NUMSUB', known.channel)
    known.lives = found.err or found[2] > 0
    return known.lives
  end

  -- Takes it out of the queue. Whether it had a place.
  local function drop(it, who)
    waiting(it, 1)
    -- Of a claim this may be the first write, which must be one that may be refused.
    if claims and not wrote then call('HSET', it.lock, 'queue', '1') end
    if call('ZREM', KEYS[it.at + QUEUE], who) == 0 then return false end
    try('HDEL', KEYS[it.at + WAITING], who)
    for place, known in ipairs(it.line) do
      if known.who == who then table.remove(it.line, place) end
    end
    if not waiting(it, 1) then
      call('HDEL', it.lock, 'queue')
      it.queue = nil
    end
    return true
  end

  -- The first that lives; the dead before it are dropped. The claim of a waiter looks no further than
  -- that one's place, and that of a reader passes others.
  local function head(it, by_claim)
    local at, known = 1, waiting(it, 1)
    while known and not (by_claim and known.who == owner) do
      if by_claim and is_reader and known.reads then
        at = at + 1
      elseif lives(known) then
        return known
      else
        drop(it, known.who)
      end
      known = waiting(it, at)
    end
  end

  -- Those that have become the first or the second do not know, and are to ask again: when a hand-over
  -- to them would be half over. If a name is free and the first could not be handed it, both at once.
  local function tell(it, is_stuck)
    for at = 1, it.line and 2 or 0 do
      local known = waiting(it, at)
      if known and (is_stuck or not known.knows) then
        known.knows = true
        wake(known, digits(not is_stuck and known.lasts and max(known.lasts / 2 - known.age, 0) or 0))
      end
    end
  end

  -- Takes the owner out of the queue. Whether it had a place.
  local function leave(it)
    local had = drop(it, owner)
    tell(it)
    return had
  end

  -- Takes a place, or renews it. Which it is, from 1.
  local function join(it)
    local queue, said = KEYS[it.at + QUEUE], KEYS[it.at + WAITING]
    local expires = digits(max(2 * again + 1, call('PTTL', queue)))
    call('HSET', said, owner, format('%d %d %d %s', lasts, again, now, kind))
    call('PEXPIRE', said, expires)
    call('ZADD', queue, ticket, owner)
    call('PEXPIRE', queue, expires)
    if not it.queue then call('HSET', it.lock, 'queue', '1') end
    return call('ZRANK', queue, owner) + 1
  end

  -- Hands a name that no writer holds to the first waiter that lives; to all readers at the head
  -- together. Who could hold it, and was not handed it.
  local function hand_over(it, with)
    local known, is_stuck
    while it.ends <= now and it.queue and not is_stuck do
      known = head(it)
      if not known or it.reader and not known.reads then break end
      is_stuck = with <= max(it.fence, floor)
      if not is_stuck then
        local who, lasts = known.who, known.lasts
        drop(it, who)
        if known.reads then read(it, who, lasts, with) else hold(it, who, known.kind, with, '1', lasts) end
        wake(known, format('%s %d %d %d %s', who, with, micros, lasts, it.lock))
      end
    end
    tell(it, is_stuck)
    return is_stuck and known.who
  end

  made = {write = write, last_reader = last_reader, settle = settle, look = look, read = read}
  made.head, made.leave, made.join, made.hand_over = head, leave, join, hand_over
  return made
end
