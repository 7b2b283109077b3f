-- The queue of a name: places, turns and hand-overs.

local made_queue
local function queue()
  if made_queue then return made_queue end
  made_queue = {}
  local queue, more = made_queue, more()
  local put, reads = more.put, more.reads
  -- ms. No hand-over lasts longer than a client counts a vote for, and no turn need be longer than
  -- LONGEST_NEED. How many readers enter at once.
  local LONGEST_HAND_OVER, LONGEST_NEED, HEAD = 5000, 2000, 128

  -- Whether anybody hears it.
  local function wake(who, what)
    local client, number = match(who, '^(.*)/s?(%d+)$')
    if not client then return false end
    local heard = try('PUBLISH', string.sub(KEYS[1], 1, -5) .. 'wake:' .. client, number .. ' ' .. what)
    if type(heard) == 'number' then return heard > 0 end
    -- This user may not publish.
    unheard = heard.err
    return false
  end

  -- In a key of another type nobody is registered: what that is in the way of must end all the
  -- same.
  function queue.registered(it, who)
    local known = try('HGET', KEYS[it.at + WAITING], who)
    known = type(known) == 'string' and known or ''
    local lasts, most, since = match(known, '^(%d+) (%d+) (%d+)$')
    if lasts then return {lasts = tonumber(lasts), most = tonumber(most), age = now - since, need = 0} end
    local need, asked = match(known, '^(%d+) (%d+)$')
    return {need = tonumber(need or 0), age = asked and now - asked or 0}
  end

  local function forget(it, who)
    local done = try('HDEL', KEYS[it.at + WAITING], who)
    if type(done) == 'table' and string.sub(done.err, 1, 9) ~= 'WRONGTYPE' then error(done) end
  end

  -- Stays in the queue, or takes a place. A claim of one name may be handed it, for so long; others
  -- are given turns, which last as long as they need.
  function queue.join(it)
    local left = call('PTTL', KEYS[it.at + QUEUE])
    if it.at == gate then more.seat(it) end
    call('ZADD', KEYS[it.at + QUEUE], ticket, owner)
    local what = format('%d %d', grace, now)
    if hand > 0 and names == 1 and not is_reader then
      what = format('%d %d %d', hand, max(hand, min(ttl, LONGEST_HAND_OVER)), now)
    end
    local done = try('HSET', KEYS[it.at + WAITING], owner, what)
    if type(done) == 'table' then
      call('ZREM', KEYS[it.at + QUEUE], owner)
      error(done)
    end
    call('PEXPIRE', KEYS[it.at + QUEUE], digits(max(wait, left)))
    call('PEXPIRE', KEYS[it.at + WAITING], digits(max(wait, left)))
    put(it, 'queue', true)
    keep(it)
  end

  -- Where this claim stands, from 1; 0 if it does not wait.
  function queue.place(it)
    local rank = wait > 0 and call('ZRANK', KEYS[it.at + QUEUE], owner)
    return rank and rank + 1 or 0
  end

  function queue.leave(it)
    if not it.queue then return end
    call('ZREM', KEYS[it.at + QUEUE], owner)
    forget(it, owner)
    if call('EXISTS', KEYS[it.at + QUEUE]) == 0 then put(it, 'queue') end
  end

  -- Whether the first in the queue may have the name, as it is.
  function queue.is_open(it)
    if it.ends > now or it.turn or not it.queue then return false end
    if not it.reader then return true end
    local next = call('ZRANGE', KEYS[it.at + QUEUE], 0, 0)[1]
    return next and reads(next)
  end

  -- Gives the first in the queue its turn, and if that reads also those behind it, up to the first
  -- writer. The next one hears when to ask. Returns how long the turn lasts.
  function queue.give(it)
    local line, lasts, enter = call('ZRANGE', KEYS[it.at + QUEUE], 0, 1), grace, 1
    if line[2] and reads(line[1]) and reads(line[2]) then line = call('ZRANGE', KEYS[it.at + QUEUE], 0, HEAD) end
    while enter < HEAD and line[enter + 1] and reads(line[enter]) and reads(line[enter + 1]) do enter = enter + 1 end
    put(it, 'queue', line[enter + 1] ~= nil or nil)
    if line[1] then
      for at = 1, enter do lasts = max(lasts, min(queue.registered(it, line[at]).need, LONGEST_NEED)) end
      -- First: if this is refused, nobody is taken out.
      for at = 1, enter do forget(it, line[at]) end
      call('ZREMRANGEBYRANK', KEYS[it.at + QUEUE], 0, enter - 1)
      put(it, 'turn', lasts > 0 and line[1] or nil)
      put(it, 'turn_until', lasts > 0 and now + lasts or nil)
    end
    keep(it)
    for at = 1, line[1] and enter or 0 do wake(line[at], 0) end
    if line[enter + 1] then wake(line[enter + 1], lasts) end
    return lasts
  end

  -- Lets the first in the queue hold the name that this call has freed, if that is registered,
  -- hears of it, and may be granted this ballot. Returns whether it did. The next two register
  -- again, if they did so long ago.
  function queue.hand_over(it, with)
    read_record()
    if with <= max(it.fence, it.read_fence or 0, floor) then return false end
    local line = call('ZRANGE', KEYS[it.at + QUEUE], 0, 2)
    local to = queue.registered(it, line[1] or '')
    if not to.lasts or to.age < 0 then return false end
    -- It counts from when it registered: half of what it asked for is left.
    local lasts = max(to.lasts, to.age + math.ceil(to.lasts / 2))
    if lasts > to.most then return false end
    -- The message must be true: if writes are refused, they are refused before it is sent.
    call('HDEL', KEYS[it.at + WAITING], line[1])
    heard(with)
    keep(it)
    if not wake(line[1], format('0 %s %d %d %d %s', line[1], with, micros, lasts, it.lock)) then return false end
    put(it, 'queue', line[2] ~= nil or nil)
    hold(it, line[1], '0', with, '1', now + lasts)
    try('ZREM', KEYS[it.at + QUEUE], line[1])
    for at = 2, #line do
      local next = queue.registered(it, line[at])
      if next.lasts and (next.age < 0 or next.age * 8 + next.lasts * 5 > next.most * 8) then wake(line[at], 1) end
    end
    return true
  end

  return queue
end
