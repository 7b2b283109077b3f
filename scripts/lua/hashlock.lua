-- The hash lock, on one node. Several operations a call; each is atomic, and all or nothing over its names.
--
-- KEYS   [1] the node's record, P .. 'node' where P is the prefix of all keys; then for every operation, for every one of its names: P{name}
-- ARGV   [1] for every operation, packed as '<sHdddIssss', texts ending with a zero byte:
--          verb    claim | renew | count | release | inspect | teach | record | revoke
--          names   how many names; of teach and record 0
--          ttl     ms
--          wait    ms to stay in the queue for; 0: overtake nobody and do not wait; -1: ignore the queue. Of a release: more than 0 requeues,
--                  0 leaves the queue, -1 keeps what place there is
--          grace   ms that a turn lasts
--          count   hold count
--          owner   who asks: {client}/{acquisition}.{round}
--          ballot  below 2^53, in digits; of teach the highest ballot that other nodes know
--          ticket  place in the queue, in digits: microsecond at which the acquisition began
--          next    of a claim that waits: ms that a hand-over to it lasts, 0 if it wants none; of a release: the ballot of whom it hands over to,
--                  0 if to nobody. In digits
-- RUN    whose process the node was when the script was loaded: a line before the first one, which the client adds. Only teach needs it
--
-- Stored for a name
--   P{name}         hash: o, c, u = owner, hold count, until when (ms of this node's TIME): over once u <= TIME. A release deletes u. The owner
--                   ends with '!' once it was revoked: then nothing but a release is its owner's any more
--                   f = the fence: the highest ballot granted or healed here, or told by a release
--                   l = the owner that was last released here without holding it: like the o of a released grant it is not healed
--                   r = the owners that were last revoked here without holding it, up to TAKEN, a line each: they are not healed either
--                   t, v = whose turn it is (who may claim the free name first), until when; w = 1 while somebody may wait
--                   expires KEEP after the later of u and the last change; where the fence is more than a day ahead of TIME, KEEP after that time
--   P{name}:queue   sorted set: acquisition -> ticket, lowest first; expires with the longest wait in it. Others like it (readers and other shared
--                   holders, with an expiry each) have a suffix and a field of their own, and change nothing of this
--   P{name}:hands   hash: acquisition -> '{owner} {ms that a hand-over lasts} {when it asked, ms of TIME}': who in the queue is registered for a
--                   hand-over; goes with the place in the queue, with a release of that owner, and with the queue
-- Stored for the node, in its record, which does not expire
--   high            the highest ballot that was granted, healed, or told by a release, of any name, but for those more than a day ahead of TIME
--   mid, floor      high as it was a period ago, and two periods ago; rotated = when (ms of TIME) they moved on
--   taught          the RUN in which the node is known to have these: it never forgot them, or was taught
-- A name that is not stored was last changed more than three periods ago, so every ballot granted for it is at most floor: no claim counts that
-- is not above both its fence and floor (together: the bar), and tokens grow although fences are kept for minutes.
--
-- Returns {TIME in microseconds, why wake-ups could not be published or '', one reply for every operation}:
--   claim    {granted, the fence: the ballot that this grant has} | {held, holder, ms left, bar, place in the queue} | {stale, bar}
--            | {reserved, whose turn, ms left, bar, place in the queue: 1 if next, 0 if it does not wait}
--   renew    {extended} | {healed} | {lost, holder, or '' where it was released or revoked}
--   count    {counted} | {lost, holder or ''}
--   release  {released, how many of the names were held}
--   revoke   {revoked, how many of the names the owner holds, ms left at most, who else holds one by a lower ballot, or ''}
--   inspect  {inspected, then for every name: holder (with '!' where it was revoked) or '', count, ms left (-2: free), fence, length of the queue, whose turn or '', ms left}
--   teach    {taught}
--   record   {record, high, floor, the RUN in which it was taught, or ''}
--   any      {error, what redis said}: this operation failed; its neighbours did not
--
-- Publishes to the client of an acquisition
--   '{acquisition} {ms}'   it is its turn (0), or when to ask: when the turn of the one before it ends; or, by 1, to register again
--   '{acquisition} 0 {owner} {ballot} {TIME in microseconds} {P{name}}'   a release has handed the name over to this owner
-- What may not be published (the user lacks the right to the channel) changes nothing else: who waits asks later by itself. Nothing is handed
-- over to who does not hear of it.

-- ms. KEEP is three PERIODs: a fence outlives the third move of high to floor.
local KEEP, PERIOD, LONGEST_TURN = 105000, 35000, 60000
-- How many revoked owners are remembered: a revocation asks for a name again each time that it has changed hands.
local TAKEN = 24
-- Microseconds. A ballot further ahead of TIME is some broken clock's: it must not lift all names.
local FAR = 86400000000

local call, format = redis.call, string.format
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local packed, at, last, key = ARGV[1], 1, #ARGV[1], 2
local replies = {micros, ''}
-- Of the record, once it was read: texts in the first part, numbers in the second.
local high, mid, floor, rotated, highest

-- What nobody contends for is most of the work, and is done here, before any function is made: a script's functions are made anew at each call.
-- What this leaves, from the first operation of another kind on, or that Redis refuses, is done below, where everything is handled. Numbers without leading zeros are
-- compared as texts, the shorter one being the smaller: to read and to write large numbers is most of what this would cost.
local moment, far = format('%d', now), format('%d', micros + FAR)
while at <= last do
  local verb, names, ttl, wait, _, count, owner, ballot, _, _, rest = struct.unpack('<sHdddIssss', packed, at)
  if names ~= 1 or ttl > 50000000 or count > 99999 then break end
  local lock = KEYS[key]
  if verb == 'claim' then
    if not floor then
      local record = redis.pcall('HMGET', KEYS[1], 'high', 'floor', 'rotated')
      local age = now - (tonumber(record[3]) or 0)
      if record.err or not record[1] or not record[2] or age >= PERIOD or age < 0 then break end
      high, floor = record[1], record[2]
      highest = high
    end
    local it = redis.pcall('HMGET', lock, 'u', 'f', 't', 'w')
    local ends, fence = it[1], it[2]
    if it.err or it[3] or it[4] or #ballot > #far or #ballot == #far and ballot > far then break end
    if #ballot < #floor or #ballot == #floor and ballot <= floor then break end
    if fence then
      if #ballot < #fence or #ballot == #fence and ballot <= fence then break end
      if ends and (#ends > #moment or #ends == #moment and ends > moment) then break end
    elseif call('EXISTS', lock) == 1 then
      break
    end
    local done = redis.pcall('HSET', lock, 'o', owner, 'c', count, 'u', format('%d', now + ttl), 'f', ballot)
    if type(done) == 'table' then break end
    call('PEXPIRE', lock, format('%d', ttl + KEEP))
    if #ballot > #high or #ballot == #high and ballot > high then high = ballot end
    replies[#replies + 1] = {'granted', ballot}
  elseif verb == 'release' or verb == 'renew' then
    local it = redis.pcall('HMGET', lock, 'o', 'u', 'f', 't', 'w')
    local ends, fence = it[2], it[3]
    if it.err or it[1] ~= owner or not ends or not fence then break end
    if #ends < #moment or #ends == #moment and ends <= moment then break end
    if verb == 'renew' then
      -- It may have been too far ahead for high when it was granted: see keep.
      local passed = format('%d', micros + ttl * 1000)
      if #fence > #passed or #fence == #passed and fence > passed then break end
      -- In this order: without memory left Redis refuses a script's HSET, unless the script has written before. PEXPIRE and HDEL it never refuses.
      local done = redis.pcall('PEXPIRE', lock, format('%d', ttl + KEEP))
      if type(done) == 'table' then break end
      call('HSET', lock, 'u', format('%d', now + ttl))
      replies[#replies + 1] = {'extended'}
    else
      if it[4] or it[5] or wait > 0 or #ballot > #fence or #ballot == #fence and ballot > fence then break end
      local done = redis.pcall('HDEL', lock, 'u')
      if type(done) == 'table' then break end
      replies[#replies + 1] = {'released', 1}
    end
  else
    break
  end
  at, key = rest, key + 1
end
if high ~= highest then call('HSET', KEYS[1], 'high', high) end
if at > last then return replies end
high, floor = tonumber(high), nil

-- Redis writes a large number with an exponent, if it ends with enough zeros.
local function digits(number)
  return format('%d', number)
end

-- Reads the record, and moves high to mid and mid to floor once a period. A clock that was set back tells nothing of how long that is ago.
local function rotate()
  if floor then return end
  local record = call('HMGET', KEYS[1], 'high', 'mid', 'floor', 'rotated')
  high, mid, floor = tonumber(record[1]) or 0, tonumber(record[2]) or 0, tonumber(record[3]) or 0
  rotated = tonumber(record[4])
  if rotated and now - rotated < PERIOD and now >= rotated then return end
  if rotated and now < rotated then
    -- What the clock let in that was further ahead than it is now is no floor for all names.
    high, floor = math.min(high, micros + FAR), math.min(floor, micros + FAR)
    mid = high
  elseif rotated and now - rotated >= 2 * PERIOD then
    mid = high
  end
  local below = math.max(floor, mid)
  -- Without memory left this is refused, and to be done again by what comes behind it.
  floor = nil
  call('HSET', KEYS[1], 'high', digits(high), 'mid', digits(high), 'floor', digits(below), 'rotated', digits(now))
  floor, mid = below, high
end

local function heard(ballot)
  if ballot > high and ballot <= micros + FAR then
    call('HSET', KEYS[1], 'high', digits(ballot))
    high = ballot
  end
end

-- What is stored of an operation's name number i.
local function look(op, i)
  local it = call('HMGET', op.locks[i], 'o', 'u', 'f', 't', 'v', 'w', 'c', 'l', 'r')
  if not it[3] and call('EXISTS', op.locks[i]) == 1 then error({err = 'ERR the key ' .. op.locks[i] .. ' is no lock of this protocol'}) end
  local ends, left = tonumber(it[2]) or 0, (tonumber(it[5]) or 0) - now
  -- Turns last seconds: this node's clock was set back since, and whoever has it may be gone.
  if left > LONGEST_TURN then left = 0 end
  local running = it[4] and left > 0
  local owner, revoked = it[1], it[1] and string.sub(it[1], -1) == '!'
  if revoked then owner = string.sub(owner, 1, -2) end
  return {
    holder = ends > now and owner or nil,
    revoked = revoked,
    ends = ends,
    fence = tonumber(it[3]) or 0,
    stored = it[4],
    turn = running and it[4] or nil,
    left = running and left or 0,
    queued = it[6],
    count = it[7] or '0',
    -- Whose renewals take nothing.
    gone = {[(revoked or not it[2]) and owner or ''] = true, [it[8] or ''] = true},
    taken = it[9] or '',
  }
end

local function is_gone(it, owner)
  return it.gone[owner] or string.find('\n' .. it.taken .. '\n', '\n' .. owner .. '\n', 1, true) ~= nil
end

-- Who was revoked here last without holding it, with this one behind.
local function with_taken(it, owner)
  local known = {}
  for other in string.gmatch(it.taken, '[^\n]+') do
    if other ~= owner then known[#known + 1] = other end
  end
  known[#known + 1] = owner
  return table.concat(known, '\n', math.max(1, #known - TAKEN + 1))
end

-- Stores fields of a name, and keeps them until the floor is above the fence.
local function keep(op, i, it, ...)
  local last, passed = math.max(it.ends, now), math.ceil(it.fence / 1000)
  local ahead = passed > last
  -- Too far for high: until clocks have passed it.
  if ahead and it.fence > micros + FAR then last = passed end
  last = digits(last + KEEP - now)
  -- What is held is extended and released whatever the server's memory: see above.
  if it.holder then call('PEXPIRE', op.locks[i], last) end
  if ahead then
    -- It may have been too far when it was granted, and be so no longer.
    rotate()
    heard(it.fence)
  end
  call('HSET', op.locks[i], ...)
  if not it.holder then call('PEXPIRE', op.locks[i], last) end
end

local function hold(op, i, it, fence)
  it.ends, it.fence = now + op.ttl, fence
  heard(fence)
  keep(op, i, it, 'o', op.owner, 'c', digits(op.count), 'u', digits(it.ends), 'f', digits(fence))
end

local function acquisition(owner)
  return string.match(owner, '^(.*)%.%d+$') or owner
end

-- Whether anybody hears it.
local function wake(who, what)
  local client, number = string.match(who, '^(.*)/(%d+)$')
  if not client then return false end
  local channel = string.sub(KEYS[1], 1, -5) .. 'wake:'
  local sent = redis.pcall('PUBLISH', channel .. client, number .. ' ' .. what)
  if type(sent) ~= 'table' then return sent > 0 end
  replies[2] = sent.err
  return false
end

local function queue(op, i)
  return op.locks[i] .. ':queue'
end

local function hands(op, i)
  return op.locks[i] .. ':hands'
end

-- What is registered expires with the queue.
local function wait_in(op, i)
  if call('PTTL', queue(op, i)) >= op.wait then return end
  call('PEXPIRE', queue(op, i), digits(op.wait))
  call('PEXPIRE', hands(op, i), digits(op.wait))
end

local function join(op, i, it)
  if op.wait <= 0 then return end
  local line, me = queue(op, i), acquisition(op.owner)
  call('ZADD', line, op.ticket, me)
  wait_in(op, i)
  it.queued = '1'
  keep(op, i, it, 'w', 1, 'f', digits(it.fence))
end

-- A claim that was refused one name, and waits for it, is who it may be handed over to.
local function register(op, i)
  if op.wait <= 0 or op.next == '0' or #op.locks > 1 then return end
  call('HSET', hands(op, i), acquisition(op.owner), op.owner .. ' ' .. op.next .. ' ' .. digits(now))
  call('PEXPIRE', hands(op, i), digits(call('PTTL', queue(op, i))))
end

-- A claim that was refused waits, if it is not a late one: who was released, or revoked, waits for nothing as this owner.
local function queue_up(op, i, it)
  if is_gone(it, op.owner) then return end
  join(op, i, it)
  register(op, i)
end

-- Who is registered, for how long a hand-over to it lasts, and how old that is.
local function registered(op, i, who)
  local owner, lasts, at = string.match(call('HGET', hands(op, i), who) or '', '^(.*) (%d+) (%d+)$')
  if owner then return owner, tonumber(lasts), now - at end
end

local function leave(op, i, it, who)
  if not it.queued then return end
  local line = queue(op, i)
  call('ZREM', line, who)
  call('HDEL', hands(op, i), who)
  if call('EXISTS', line) == 0 then
    call('HDEL', op.locks[i], 'w')
    it.queued = nil
  end
end

local function over(op, i, it)
  if it.stored then call('HDEL', op.locks[i], 't', 'v') end
end

-- Gives the first in the queue its turn, which takes it out of the queue.
local function give(op, i, it)
  local line = queue(op, i)
  local waiting = call('ZRANGE', line, 0, 1)
  if waiting[1] then
    call('ZREM', line, waiting[1])
    call('HDEL', hands(op, i), waiting[1])
    keep(op, i, it, 't', waiting[1], 'v', digits(now + op.grace))
    wake(waiting[1], 0)
  end
  if waiting[2] then
    wake(waiting[2], op.grace)
  else
    call('HDEL', op.locks[i], 'w')
  end
end

-- Grants the name that this release has freed to the first in the queue, if that is registered lately enough and hears of it, and the ballot may be granted.
-- Whether it did. The next two are told to register again, if that is long ago.
local function hand_over(op, i, it)
  local ballot, line = tonumber(op.next), queue(op, i)
  if ballot <= math.max(it.fence, floor) then return false end
  local waiting = call('ZRANGE', line, 0, 2)
  if not waiting[1] then return false end
  local owner, lasts, age = registered(op, i, waiting[1])
  -- A release or a revocation of it must not be undone by what another's release carries.
  if not owner or is_gone(it, owner) or age < 0 or age * 2 > lasts then return false end
  -- What it hears must be true: no write behind this can be refused, since this release has written before.
  if not wake(waiting[1], '0 ' .. owner .. ' ' .. digits(ballot) .. ' ' .. digits(micros) .. ' ' .. op.locks[i]) then return false end
  call('ZREM', line, waiting[1])
  call('HDEL', hands(op, i), waiting[1])
  it.ends, it.fence = now + lasts, ballot
  heard(ballot)
  over(op, i, it)
  keep(op, i, it, 'o', owner, 'c', 1, 'u', digits(it.ends), 'f', digits(ballot))
  if not waiting[2] then call('HDEL', op.locks[i], 'w') end
  for next = 2, #waiting do
    local _, long, since = registered(op, i, waiting[next])
    if long and (since < 0 or since * 8 > long * 3) then wake(waiting[next], 1) end
  end
  return true
end

-- Where this claim stands in the queue, from 1; 0 if it does not wait.
local function place(op, i)
  local rank = op.wait > 0 and call('ZRANK', queue(op, i), acquisition(op.owner))
  return rank and rank + 1 or 0
end

-- Who comes before this claim to the free lock number i, and for how long; nobody if it may have it.
local function before(op, i, it)
  if op.wait < 0 then return end
  local me = acquisition(op.owner)
  if it.turn then
    if it.turn ~= me then return it.turn, it.left, false end
    return
  end
  if not it.queued then return end
  local first = call('ZRANGE', queue(op, i), 0, 0, 'WITHSCORES')
  if not first[1] or first[1] == me then return end
  local ticket, theirs = tonumber(op.ticket), tonumber(first[2])
  if op.wait > 0 and (ticket < theirs or ticket == theirs and me < first[1]) then return end
  return first[1], op.grace, true
end

local function look_all(op)
  local seen = {}
  for i = 1, #op.locks do seen[i] = look(op, i) end
  return seen
end

-- The highest bar of the names that are free.
local function highest_bar(seen)
  local bar = 0
  for _, it in ipairs(seen) do
    if not it.holder then bar = math.max(bar, it.fence, floor) end
  end
  return bar
end

local verbs = {}

function verbs.claim(op)
  rotate()
  local seen = look_all(op)
  local bar = highest_bar(seen)
  local ballot = tonumber(op.ballot)
  local top = ballot
  for i, it in ipairs(seen) do
    if it.holder == op.owner and not it.revoked then
      top = math.max(top, it.fence)
      -- Granted while the node was in doubt, and it was taught since.
      if math.max(ballot, it.fence) <= floor then return {'stale', digits(floor)} end
    elseif it.holder then
      queue_up(op, i, it)
      return {'held', it.holder, it.ends - now, digits(math.max(it.fence, floor)), place(op, i)}
    else
      if ballot <= math.max(it.fence, floor) then return {'stale', digits(bar)} end
      local who, left, due = before(op, i, it)
      if who then
        queue_up(op, i, it)
        if due then give(op, i, it) end
        return {'reserved', who, left, digits(math.max(it.fence, floor)), place(op, i)}
      end
    end
  end
  for i, it in ipairs(seen) do
    hold(op, i, it, top)
    leave(op, i, it, acquisition(op.owner))
    over(op, i, it)
  end
  return {'granted', digits(top)}
end

function verbs.renew(op)
  local seen, reply = look_all(op), 'extended'
  for i, it in ipairs(seen) do
    if it.holder and it.holder ~= op.owner then return {'lost', it.holder} end
    if it.holder and it.revoked then return {'lost', ''} end
    if not it.holder then
      if it.turn then return {'lost', it.turn} end
      -- A renewal that was overtaken must not revive what was released or revoked.
      if is_gone(it, op.owner) then return {'lost', ''} end
      reply = 'healed'
    end
  end
  for i, it in ipairs(seen) do
    if it.holder then
      it.ends = now + op.ttl
      keep(op, i, it, 'u', digits(it.ends))
    else
      rotate()
      hold(op, i, it, math.max(it.fence, tonumber(op.ballot)))
    end
  end
  return {reply}
end

function verbs.count(op)
  for i, it in ipairs(look_all(op)) do
    if it.holder ~= op.owner then return {'lost', it.holder or ''} end
  end
  for i, lock in ipairs(op.locks) do call('HSET', lock, 'c', digits(op.count)) end
  return {'counted'}
end

function verbs.release(op)
  local seen, mine, freed, me = look_all(op), {}, 0, acquisition(op.owner)
  for i, it in ipairs(seen) do
    if it.holder == op.owner then
      call('HDEL', op.locks[i], 'u')
      it.ends, it.holder, mine[i], freed = 0, nil, true, freed + 1
    end
  end
  rotate()
  for i, it in ipairs(seen) do
    it.fence = math.max(it.fence, tonumber(op.ballot))
    heard(it.fence)
    if mine[i] then
      keep(op, i, it, 'f', digits(it.fence))
    else
      keep(op, i, it, 'f', digits(it.fence), 'l', op.owner)
    end
    if op.wait == 0 then
      leave(op, i, it, me)
    else
      join(op, i, it)
      -- What is registered may be a later round.
      if it.queued and registered(op, i, me) == op.owner then call('HDEL', hands(op, i), me) end
    end
    local turn = it.turn
    -- What is given back for an earlier owner leaves the acquisition what it has as another.
    if turn == me and op.wait >= 0 then
      over(op, i, it)
      turn = nil
    end
    if not it.holder and not turn and it.queued and not (mine[i] and hand_over(op, i, it)) then give(op, i, it) end
  end
  return {'released', freed}
end

function verbs.revoke(op)
  rotate()
  local seen, held, longest, other = look_all(op), 0, 0, ''
  for i, it in ipairs(seen) do
    -- Whoever came after the nodes were asked who holds it, and before this.
    if it.holder and it.holder ~= op.owner and not it.revoked and it.fence < tonumber(op.ballot) then other = it.holder end
    it.fence = math.max(it.fence, tonumber(op.ballot))
    heard(it.fence)
    if it.holder == op.owner then
      held, longest = held + 1, math.max(longest, it.ends - now)
      keep(op, i, it, 'f', digits(it.fence), 'o', op.owner .. '!')
    else
      -- A renewal on its way would take it here, and then count.
      keep(op, i, it, 'f', digits(it.fence), 'r', with_taken(it, op.owner))
    end
  end
  return {'revoked', held, longest, other}
end

function verbs.inspect(op)
  local reply = {'inspected'}
  for i = 1, #op.locks do
    local it = look(op, i)
    local left, line = it.holder and it.ends - now or -2, call('ZCARD', queue(op, i))
    local holder = it.holder and (it.holder .. (it.revoked and '!' or ''))
    for _, part in ipairs({holder or '', it.holder and it.count or '0', left, digits(it.fence), line, it.turn or '', it.left}) do
      reply[#reply + 1] = part
    end
  end
  return reply
end

function verbs.teach(op)
  rotate()
  local told = math.min(tonumber(op.ballot), micros + FAR)
  high, mid, floor = math.max(high, told), math.max(mid, told), math.max(floor, told)
  call('HSET', KEYS[1], 'high', digits(high), 'mid', digits(mid), 'floor', digits(floor), 'taught', RUN)
  return {'taught'}
end

function verbs.record()
  rotate()
  return {'record', digits(high), digits(floor), call('HGET', KEYS[1], 'taught') or ''}
end

-- Before version 7 Redis puts in front where in the script it refused.
local function said(problem)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return {'error', (string.gsub(text, '^@?[%w_]+: %d+: %-?', ''))}
end

while at <= last do
  local op, verb, names = {locks = {}}
  verb, names, op.ttl, op.wait, op.grace, op.count, op.owner, op.ballot, op.ticket, op.next, at = struct.unpack('<sHdddIssss', packed, at)
  for name = 1, names do
    op.locks[name] = KEYS[key]
    key = key + 1
  end
  local ok, reply = pcall(verbs[verb], op)
  replies[#replies + 1] = ok and reply or said(reply)
end
return replies
