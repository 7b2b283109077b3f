-- The queue of a name, and the hand-over to its waiters.

local made_queue
local function queue()
  if made_queue then return made_queue end
  made_queue = {}
  local queue, more = made_queue, more()
  local put = more.put
  -- How many waiters are read at once.
  local SOME = 16

  -- Whether an owner is a reader.
  local function reads(who)
    return find(who, '/s%d+$') ~= nil
  end

  local function channel_of(who)
    local client, number = match(who, '^(.*)/s?(%d+)$')
    return client and string.sub(KEYS[1], 1, -5) .. 'wake:' .. client, number
  end

  local function wake(who, what)
    local channel, number = channel_of(who)
    local done = channel and try('PUBLISH', channel, number .. ' ' .. what)
    -- This user may not publish.
    if type(done) == 'table' then unpublished = done.err end
  end

  -- Whether a waiter's client has subscribed. A user who may not ask hands over to the dead too.
  local function is_subscribed(who)
    local channel = channel_of(who)
    if not channel then return false end
    local found = try('PUBSUB', 'NUMSUB', channel)
    return found.err or found[2] > 0
  end

  -- Number `at` of the queue: an owner, and for a claim its ticket.
  local function waiter(it, at)
    it.line = it.line or {}
    local line = it.line
    if not line[at] and not line.is_whole then
      local step, key, from, to = claims and 2 or 1, KEYS[it.at + QUEUE], #line, #line + SOME - 1
      local found = claims and call('ZRANGE', key, from, to, 'WITHSCORES') or call('ZRANGE', key, from, to)
      for i = 1, #found, step do line[#line + 1] = {who = found[i], ticket = claims and found[i + 1] + 0} end
      line.is_whole = #found < step * SOME
    end
    return line[at]
  end

  -- What it said: how long a hand-over to it lasts, in what time it asks again, what for, and how long
  -- ago (now, if the clock was set back since). In a key of another type nobody waits.
  local function said(it, known)
    if known.lasts then return true end
    local text = try('HGET', KEYS[it.at + WAITING], known.who)
    local lasts, again, asked, kind = match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%d+) (%d+)$')
    if not lasts then return false end
    known.lasts, known.again, known.age, known.kind = lasts + 0, again + 0, max(now - asked, 0), kind
    if now < asked + 0 then
      more.write(KEYS[it.at + WAITING], known.who, format('%d %d %d %s', lasts, again, now, kind))
    end
    return true
  end

  -- Takes it out of the queue. Whether it had a place.
  local function drop(it, who)
    local place = waiter(it, 1) and 1
    while place and it.line[place].who ~= who do place = it.line[place + 1] and place + 1 end
    if not place and it.line.is_whole then return false end
    -- Of a claim this may be the first write, which must be one that may be refused.
    if claims and not has_written then call('HSET', it.lock, 'queue', '1') end
    has_written = true
    local had = call('ZREM', KEYS[it.at + QUEUE], who) == 1
    local done = try('HDEL', KEYS[it.at + WAITING], who)
    if type(done) == 'table' and string.sub(done.err, 1, 9) ~= 'WRONGTYPE' then error(done) end
    if place then table.remove(it.line, place) end
    if place and place < 3 then it.moved_up = (it.moved_up or 0) + 1 end
    if not waiter(it, 1) then put(it, 'queue') end
    return had
  end

  -- The first that lives. One that has not asked again in twice the time it said, or that hears
  -- nothing, is dropped. The claim of a waiter looks no further than that one's place, and that of a
  -- reader passes others.
  local function first(it, by_claim)
    local at = 1
    while true do
      local known = waiter(it, at)
      if not known or by_claim and known.who == owner then return end
      if by_claim and is_reader and reads(known.who) then
        at = at + 1
      else
        known.lives = known.lives or said(it, known) and known.age <= 2 * known.again and is_subscribed(known.who)
        if known.lives then return known end
        drop(it, known.who)
      end
    end
  end

  -- Those that have become the first or the second do not know, and are to ask again: when a hand-over
  -- to them would be half over. If a name is free and the first could not be handed it, both at once.
  local function tell(it, is_stuck)
    for at = is_stuck and 1 or max(1, 3 - (it.moved_up or 0)), 2 do
      local known = waiter(it, at)
      if not known then break end
      local due = not is_stuck and said(it, known) and known.lasts / 2 - known.age or 0
      wake(known.who, digits(max(due, 0)))
    end
    it.moved_up = nil
  end

  -- Takes the owner out of the queue. Whether it had a place.
  function queue.leave(it)
    local had = it.queue and drop(it, owner)
    tell(it)
    return had
  end

  -- Takes a place, or renews it. Which it is, from 1.
  function queue.join(it)
    local left = call('PTTL', KEYS[it.at + QUEUE])
    call('ZADD', KEYS[it.at + QUEUE], ticket, owner)
    local done = try('HSET', KEYS[it.at + WAITING], owner, format('%d %d %d %d', lasts, again, now, kind))
    if type(done) == 'table' then
      call('ZREM', KEYS[it.at + QUEUE], owner)
      error(done)
    end
    left = digits(max(2 * again + 1, left))
    call('PEXPIRE', KEYS[it.at + QUEUE], left)
    call('PEXPIRE', KEYS[it.at + WAITING], left)
    if not it.queue then put(it, 'queue', true) end
    return call('ZRANK', KEYS[it.at + QUEUE], owner) + 1
  end

  -- Whether a live waiter with an older ticket comes before this claim: for a reader, a writer.
  function queue.has_others_before(it)
    local other = first(it, true)
    return other and (again == 0 or other.ticket <= ticket)
  end

  local function hand(it, known, with)
    local who, lasts = known.who, known.lasts
    drop(it, who)
    if reads(who) then readers().read(it, who, lasts, with) else hold(it, who, known.kind, with, '1', lasts) end
    wake(who, format('%s %d %d %d %s', who, with, micros, lasts, it.lock))
  end

  -- Hands a name that no writer holds to the first waiter that lives; to all readers at the head
  -- together. Who could hold it, and was not handed it.
  function queue.hand_over(it, with)
    local known, is_stuck
    while it.ends <= now and it.queue and not is_stuck do
      known = first(it)
      if not known or it.reader and not reads(known.who) then break end
      read_record()
      is_stuck = with <= max(it.fence, floor)
      if not is_stuck then hand(it, known, with) end
    end
    tell(it, is_stuck)
    return is_stuck and known.who
  end

  return queue
end
