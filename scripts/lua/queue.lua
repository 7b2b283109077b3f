-- The queue of a name, and the hand-over to its waiters.

local made_queue
local function queue()
  if made_queue then return made_queue end
  made_queue = {}
  local queue, more = made_queue, more()
  local put, reads = more.put, more.reads
  -- How far from its head one call looks.
  local HEAD = 128

  local function channel_of(who)
    local client, number = match(who, '^(.*)/s?(%d+)$')
    return client and string.sub(KEYS[1], 1, -5) .. 'wake:' .. client, number
  end

  local function wake(who, what)
    local channel, number = channel_of(who)
    local done = channel and try('PUBLISH', channel, number .. ' ' .. what)
    -- This user may not publish.
    if type(done) == 'table' then unheard = done.err end
  end

  -- Whether a waiter's client has subscribed. A user who may not ask hands over to the dead too.
  local function is_heard_by(who)
    local channel = channel_of(who)
    if not channel then return false end
    local found = try('PUBSUB', 'NUMSUB', channel)
    return found.err or found[2] > 0
  end

  -- How long a hand-over to a waiter lasts, in what time it asks again, how long ago it asked (now, if
  -- the clock was set back since), and what for. In a key of another type nobody waits.
  local function waiter(it, who)
    local known = try('HGET', KEYS[it.at + WAITING], who)
    local pattern = '^(%d+) (%d+) (%d+) (%d+)$'
    local lasts, again, asked, kind = match(type(known) == 'string' and known or '', pattern)
    if lasts then return lasts + 0, again + 0, now - asked, kind end
  end

  local function drop(it, who)
    local had = call('ZREM', KEYS[it.at + QUEUE], who) == 1
    local done = try('HDEL', KEYS[it.at + WAITING], who)
    if type(done) == 'table' and string.sub(done.err, 1, 9) ~= 'WRONGTYPE' then error(done) end
    if had and call('EXISTS', KEYS[it.at + QUEUE]) == 0 then put(it, 'queue') end
    return had
  end

  -- How long a hand-over to a waiter lasts. One that has not asked again in twice the time it said,
  -- or that hears nothing, is dropped.
  local function living(it, who)
    local lasts, again, age, kind = waiter(it, who)
    if age and age < 0 then
      more.write(KEYS[it.at + WAITING], who, format('%d %d %d %s', lasts, again, now, kind))
      age = 0
    end
    if lasts and age <= 2 * again and is_heard_by(who) then return lasts, kind end
    drop(it, who)
  end

  -- Takes a place, or renews it.
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
    if it.changed then keep(it) end
  end

  -- Where this claim stands, from 1; 0 if it does not wait.
  function queue.place(it)
    local rank = again > 0 and call('ZRANK', KEYS[it.at + QUEUE], owner)
    return rank and rank + 1 or 0
  end

  -- Whether it had a place.
  function queue.leave(it)
    return it.queue and drop(it, owner)
  end

  -- By bytes: Lua compares texts as the server's locale does.
  local function is_less(one, other)
    for at = 1, #one do
      local left, right = string.byte(one, at), string.byte(other, at) or -1
      if left ~= right then return left < right end
    end
    return #one < #other
  end

  -- The first that lives.
  function queue.first(it)
    for _, who in ipairs(call('ZRANGE', KEYS[it.at + QUEUE], 0, HEAD - 1)) do
      if living(it, who) then return who end
    end
  end

  -- Whether a live waiter with an older ticket comes before this claim: for a reader, a writer.
  function queue.has_others_before(it)
    local line = call('ZRANGE', KEYS[it.at + QUEUE], 0, HEAD - 1, 'WITHSCORES')
    for at = 1, #line, 2 do
      local who, place = line[at], line[at + 1] + 0
      if who == owner then return false end
      if not (is_reader and reads(who)) and living(it, who) then
        return again == 0 or place < ticket or place == ticket and is_less(who, owner)
      end
    end
    return false
  end

  local function hand(it, who, lasts, kind, with)
    drop(it, who)
    if reads(who) then readers().read(it, who, lasts, with) else hold(it, who, kind, with, '1', lasts) end
    wake(who, format('%s %d %d %d %s', who, with, micros, lasts, it.lock))
  end

  -- Hands a name that no writer holds to the first waiter that lives; to all readers at the head
  -- together. The next two are to ask again: when that hand-over ends, or at once if a hand-over to
  -- them would be half over.
  function queue.hand_over(it, with)
    if it.ends > now or not it.queue then return end
    read_record()
    local longest
    for _, who in ipairs(call('ZRANGE', KEYS[it.at + QUEUE], 0, HEAD - 1)) do
      local lasts, kind = living(it, who)
      if lasts then
        local is_writer = not reads(who)
        local bar = max(it.fence, floor, is_writer and it.read_fence or 0)
        if is_writer and it.reader or with <= bar then break end
        hand(it, who, lasts, kind, with)
        longest = max(longest or 0, lasts)
        if is_writer then break end
      end
    end
    for _, who in ipairs(longest and call('ZRANGE', KEYS[it.at + QUEUE], 0, 1) or {}) do
      local lasts, _, age = waiter(it, who)
      wake(who, digits(lasts and age > lasts / 2 and 0 or longest))
    end
  end

  return queue
end
