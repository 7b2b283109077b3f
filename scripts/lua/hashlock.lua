-- The hash lock, on one node. Several operations a call; each is atomic, and all or nothing over
-- its names.
--
-- KEYS   [1] the node's record, P .. 'node' where P is the prefix of all keys;
--        then for every operation, for every one of its names: P{name}
-- ARGV   [1] for every operation, packed as '<BddsI4Hdddd', numbers below 2^53, the text ending
--        with a zero byte:
--          verb    1 claim | 2 renew | 3 release | 4 inspect | 5 teach | 6 record
--                  | 7 revoke | 8 enrol | 9 retire | 10 reset
--                  64 is added where it is about no or several names, is a release that requeues
--                  or whose owner may have a note, is a renewal with a note, or is a claim with
--                  another hold count than 1, or is shared, or is of a semaphore
--                  32 is added where an operation before it in this call may be about one of its
--                  names
--          ttl     ms
--          ballot  of teach the highest ballot that other nodes know
--          owner   who asks: {client}/{acquisition}.{round}. Where the acquisition is 's' and a number
--                  it is shared, a reader: it holds the name with others that are, and with no
--                  other. The round has a zero more in front where the owner may have a note, and
--                  two where it is held for a period in which something is done once
--          count   hold count. Of a claim or a renewal that is of a semaphore how many permits that
--                  has, and GATE more where the first of the names is its gate (the others are
--                  permits), or PERMIT more where all are permits
--          names   how many names; of teach, record, enrol, retire and reset 0
--          wait    ms to stay in the queue for; 0: overtake nobody and do not wait; -1: ignore the
--                  queue. Of a release: more than 0 requeues, 0 leaves the queue, -1 keeps what
--                  place there is
--          grace   ms that a turn lasts which it gives; of a claim that waits and wants no hand-over,
--                  also those that its own must last
--          ticket  place in the queue: microsecond at which the acquisition began
--          next    of a claim that waits: ms that a hand-over to it lasts, 0 if it wants none;
--                  of a release: the ballot of whom it hands over to, 0 if to nobody
--        of enrol:
--          owner   the servers, with spaces between, each a run id and, behind a '<' each, those
--                  of its predecessors at the same address
--          count   how many nodes the list has
--          ballot  the protocol
--          ttl     the longest ttl of the client's locks; where it is above a day, it is unlisted
--          grace   how long an entry lasts at least; 0 asks and writes nothing
--        of teach:
--          grace   more than 0 where it is no lesson of the node's own list, or too few nodes of
--                  that know: it does not become one that is taught
--        of renew with a note:
--          owner   who holds the names, a line feed, and what it says of itself
--          next    the number of the note: a lower one of its owner does not replace a higher one
--          grace   how long ago the names were acquired
-- RUN    whose process the node was when the script was loaded: a line before the first one, which
--        the client adds. Teach needs it, and whatever reads or writes the roster
--
-- Stored for a name
--   P{name}         string, packed as '<I4ddI4ds':
--                   kind     'QLK' and a byte that begins with '@': 1 is added while somebody may
--                            wait, 2 while there is more (see below), 4 while there may be readers,
--                            8 where it is a semaphore's gate
--                   expires  when the key goes, ms of this node's TIME: KEEP after the later of
--                            ends and the last change, and at most SPARE later where it was stored
--                            before; where the fence is more than a day ahead of TIME, KEEP after
--                            that time; not before taken_till. Of a gate KEEP after what permits
--                            are held until, as far as renewals have told
--                   ends     until when it is held, ms of this node's TIME: over once ends <= TIME.
--                            A release sets 0
--                   count    hold count as of the last renewal; of a gate how many permits its
--                            semaphore has: it stays when the gate is freed
--                   fence    the highest ballot granted or healed here, or told by a release
--                   owner    who holds it, or held it last. Ends with '!' once it was revoked: then
--                            nothing but a release is its owner's any more
--                   Whatever is behind that has no meaning, unless there is more. Then '<sdsdsd'
--                   follows, and '<d' behind it where there may be readers:
--                   turn, till     whose turn it is (who may claim the free name first) or '',
--                                  until when
--                   released       the owner that was last released here without holding it, or '':
--                                  like the owner of a released grant it is not healed
--                   released_till  until when that is kept: KEEP after the release
--                   taken          the owners that were last revoked here, up to TAKEN, a line
--                                  each: they are not healed either. Behind them '*' and a ballot:
--                                  nor are readers with ballots up to that
--                   taken_till     until when these are kept, and the key: REMEMBERED after the
--                                  last revocation
--                   shared         the highest ballot granted to a reader, or told by its release.
--                                  Readers' ballots need not be above it, others' must. It is the
--                                  fence's when there is no :readers any more
--   P{name}:queue   sorted set: acquisition -> ticket, lowest first; expires with the longest wait
--                   in it
--   P{name}:readers sorted set: the owner of each reader -> until when it holds the name, ms of
--                   TIME; with '!' behind it once it was revoked. Below zero: it was released, and
--                   that is kept until then, as of the last RELEASED. Expires with the last of these
--   P{name}:hands   hash: acquisition -> packed as '<ddds' the ms that a hand-over lasts, and lasts
--                   at most, when it asked (ms of TIME), and the owner: who in the queue is
--                   registered for a hand-over; goes with the place in the queue, with a release of
--                   that owner, and with the queue. Of who waits and is not registered '<dd': the
--                   ms that its turn must last at least, and when it asked
--   P{name}:note    string, packed as '<I4ddI4s': kind 'QLN#', since when the name is held (ms of
--                   TIME), token, number of the note, whose it is; then what that one says of
--                   itself. Goes with the release, and with the key of the hold. What cannot be stored
--                   of it changes nothing that the renewal comes to
-- Stored for the node
--   P..node         its record, which does not expire: a string, packed as '<I4dddds':
--                   kind     'QLK#'
--                   high     no ballot that was granted, healed, or told by a release or a
--                            revocation, of any name, is above it, but for those more than a day
--                            ahead of TIME, and what was told by who may not write it. Up to AHEAD above the highest of them, or what the node
--                            was taught, so that it is not written each time, but not further than
--                            AHEAD above TIME: what leads all clocks is led by nothing
--                   mid      high as it was a period ago
--                   floor    high as it was two periods ago
--                   rotated  when (ms of TIME) these two moved on
--                   taught   the RUN in which the node is known to have these: it never forgot
--                            them, or was taught; else ''
--   P..node:roster  hash: whose votes clients of this node count. '/'..run id -> until when;
--                   n, p = how many nodes their list has, their protocol; r = the run id of the
--                   process in which it was written: what was loaded from a disk counts for
--                   nothing; '='..longest ttl of some client (ms) -> until when. Gone with its last
--                   entry. A run id ends with '-' and its database, where that is not 0
--   P..node:retired string, where the node was retired: since when, ms of TIME. It does not expire
-- A name that is not stored was last changed more than three periods ago, so every ballot granted
-- for it is at most floor: no claim counts that is not above both its fence and floor (together:
-- the bar), and tokens grow although fences are kept for minutes.
--
-- Returns, if all went as asked (claims were granted with their own ballots, renewals extended,
-- releases freed their only names):
--   '{seconds of TIME} {microseconds} {how many operations, or k for one}'
-- A line follows for each claim that was refused because the name is held:
--   '{number of the operation} {ms left} {bar} {place in the queue} {holder}'
-- (A table costs Redis many times as much.) Else {TIME in microseconds, why wake-ups could not be
-- published or '', and for every operation 'k' where it went as asked, such a line without its
-- number, or a table}:
--   claim    {granted, the fence: the ballot that this grant has}
--            | {lost, ''}: this owner was revoked
--            | {held, holder, ms left, bar, place in the queue}
--            | {stale, bar}
--            | {misused, the number of the name, permits}: that name is the gate of a semaphore with
--              so many permits, and this is no claim of it, or one that says fewer; or, with 0, it
--              is a claim of a gate, and the name is held as a lock
--            | {reserved, whose turn, ms left, bar, place in the queue: 1 if next, 0 if it does not
--              wait}
--   renew    {extended} | {healed}
--            | {lost, holder, or whose turn it is, or '' where it was released or revoked}
--   release  {released, how many of the names were held}
--   revoke   {revoked, how many of the names the owner holds, ms left at most, who else holds one,
--            or ''}. Where the owner is a reader, it is about all readers
--   inspect  {inspected, then for every name: holder (with '!' where it was revoked) or '', count,
--            ms left (-2: free), fence, length of the queue, whose turn or '', ms left, '' or the
--            holder's note: '{ms since it acquired} {token} {number} {what it says}'}. Where
--            readers hold it: one of them, that was not revoked if there is any; how many; until the
--            last of them ends. Of a gate the count is GATE and how many permits there are
--   teach    {taught}
--   record   {record, high, floor, the RUN in which it was taught, or ''}
--   enrol    {listed, then the roster as it was} | {unlisted, then the roster}: nothing was
--            written, nor where all of it is there for as long as it must last. A roster is told as
--            n, p, the longest ttl, ms until its last entry ends, ms since the node was retired
--            (-1: it was not), run ids; n and p are 0 where it is empty. No vote of a node that was
--            retired counts
--   retire   {retired, then the roster}
--   reset    {reset, then the roster as it was}: the node is retired no more
--   any      {error, what redis said}: this operation failed; its neighbours did not
--
-- Publishes to a client, on the channel P .. 'wake:' .. {client}
--   '{acquisition} {ms}'
--            it is its turn (0), or when to ask: when the turn of the one before it ends; or, by 1,
--            to register again
--   '{acquisition} 0 {owner} {ballot} {TIME in microseconds} {ms} {P{name}}'
--            a release has handed the name over to this owner, for so long
-- Publishes to observers, on the channel P{name}:news
--   P{name}  a note of its holder was stored for the first time, or with a higher number, or went with
--            a release
-- What may not be published (the user lacks the right to the channel) changes nothing else: who
-- waits asks later by itself, as do observers. Nothing is handed over to who does not hear of it.

-- ms. KEEP is three PERIODs: a fence outlives the third move of high to floor. A name that is used
-- again and again has its expiry set only every SPARE.
-- A hand-over lasts no longer than any client counts a vote for: LONGEST_HAND_OVER.
-- No turn need be longer than LONGEST_NEED for whoever has it.
local KEEP, SPARE, PERIOD, LONGEST_TURN, LONGEST_HAND_OVER = 105000, 10000, 35000, 60000, 5000
local LONGEST_NEED = 2000
-- How many readers that were released are remembered. How far from the head of the queue a reader
-- looks for a writer, and how many readers are told at once that they may enter.
local RELEASED, HEAD = 128, 128
-- ms. Whoever waits asks again before that has passed twice.
local SILENT = 10000
-- How many revoked owners are remembered: a revocation asks for a name again each time that it has
-- changed hands. And for how many ms, where the name is used; else with the name.
local TAKEN, REMEMBERED = 24, 3600000
-- By how much an entry of a roster lasts longer than its client's longest ttl at least, and how
-- much longer it is written for: so that of many clients one writes it, every ROSTER_SPARE.
local ROSTER, ROSTER_SPARE = 15000, 5000
-- No client with longer locks is enrolled: each node that restarts would be kept out for as long.
local LONGEST_TTL = 86400000
-- Microseconds. A ballot further ahead of TIME is some broken clock's: it must not lift all names.
local FAR, AHEAD = 86400000000, 250000
-- Kinds of what is stored, and what they are with more.
local PLAIN, QUEUED, MORE, READ, RECORD = 0x404b4c51, 0x1000000, 0x2000000, 0x4000000, 0x234b4c51
local NOTE = 0x234e4c51
-- The shortest that are stored of a name, in the record, and of who is registered. An end that is
-- over: zero as a double.
local SHORTEST, SHORTEST_RECORD, REGISTERED, OVER = 33, 37, 25, '\0\0\0\0\0\0\0\0'
-- The shortest note.
local SHORTEST_NOTE = 25
-- What the owner of a revoked hold ends with: '!'.
local REVOKED = 33
-- From how many keys on one command reads them, and up to how many: Lua's stack ends at 8,000
-- values.
local FEW, MOST = 5, 1000

local all = unpack
local call, try, format, pack, unpack = redis.call, redis.pcall, string.format, struct.pack, struct.unpack
local find, byte = string.find, string.byte
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
local keys, packed, at, last, key = KEYS, ARGV[1], 1, #ARGV[1], 2
-- Operations that were carried out, and lines about those that did not go as asked.
local carried, told = 0, ''
-- Of the record, once it was read.
local high, mid, floor, rotated, taught
-- What the keys hold, by their numbers. A key that holds no string is as one that holds nothing.
local known

-- For so many, one command costs less than one for each.
if #keys >= FEW and #keys <= MOST then known = try('MGET', all(keys)) end
-- This user may not.
if known and known.err then known = nil end

-- What is frequent is most of the work, and is done here, before any function is made: a script's
-- functions are made anew at each call. What this leaves, from the first operation of another kind
-- on, or that Redis refuses, is done below, where everything is handled. Commands are most of what
-- it costs, then strings that are made, numbers that become text and back, tables, and calls of
-- functions. Nothing in here raises an error: what the operations before did must be told.
while at <= last do
  local verb, ttl, ballot, owner, behind = unpack('<Bdds', packed, at)
  local lock, stored = keys[key]
  if verb > 3 then
    if verb <= 32 or verb > 35 then break end
    verb, stored = verb - 32, try('GET', lock)
  elseif known then
    stored = known[key]
  else
    stored = try('GET', lock)
  end
  if stored and #stored < SHORTEST then break end
  local kind, expires, ends, _, fence = PLAIN, 0, 0, 0, 0
  -- Who was released last without holding it, all that is behind the owner then, and MORE.
  local gone, also, more = '', '', 0
  if stored then
    kind, expires, ends, _, fence = unpack('<I4ddI4d', stored)
    if kind ~= PLAIN and kind ~= PLAIN + QUEUED then
      more = MORE
      kind = kind - more
      local over = find(stored, '\0', 33, true)
      if not over or kind ~= PLAIN and kind ~= PLAIN + QUEUED then break end
      local whole, whose, _, who, till, taken, after = pcall(unpack, '<sdsds', stored, over + 1)
      -- No turn, nobody revoked, and it is neither over nor from before a clock was set back.
      if not whole or whose ~= '' or taken ~= '' or who == owner or till <= now or till > now + KEEP then break end
      -- With the time that follows, and without what a longer owner left behind that: it would grow.
      if #stored < after + 7 then break end
      gone, also = who, string.sub(stored, over + 1, after + 7)
    end
  end
  if verb ~= 1 then
    if ends <= now then break end
    -- The whole of it: what is behind the zero byte has no meaning.
    if find(stored, owner, 33, true) ~= 33 or #stored > 33 + #owner and byte(stored, 33 + #owner) ~= 0 then break end
  end
  if not floor and (verb == 1 or verb == 3 and kind ~= PLAIN) then
    local record
    if known then record = known[1] else record = try('GET', keys[1]) end
    if not record or #record < SHORTEST_RECORD then break end
    local what, upper, _, below, moved = unpack('<I4dddd', record)
    if what ~= RECORD or now - moved >= PERIOD or now < moved then break end
    high, floor = upper, below
  end
  if verb == 1 and ends > now then
    -- Held by another, who has not been revoked; and nothing is to be done for its fence: see keep.
    local over = find(stored, '\0', 33, true)
    if not over then break end
    local holder = string.sub(stored, 33, over - 1)
    if holder == owner or byte(holder, -1) == REVOKED or expires < ends + KEEP or fence > ends * 1000 then break end
    local _, _, wait, _, ticket, next = unpack('<I4Hdddd', packed, behind)
    local place = 0
    if wait > 0 then
      if next == 0 then break end
      local me, line, hands = string.match(owner, '^(.*)%.%d+$') or owner, lock .. ':queue', lock .. ':hands'
      -- Whatever is refused: what was done by then is done again below.
      if type(try('ZADD', line, format('%d', ticket), me)) == 'table' then break end
      local most = math.max(next, math.min(ttl, LONGEST_HAND_OVER))
      if type(try('HSET', hands, me, pack('<ddds', next, most, now, owner))) == 'table' then break end
      local left = try('PTTL', line)
      if type(left) == 'table' then break end
      if left < wait then
        left = wait
        if try('PEXPIRE', line, format('%d', left)) ~= 1 then break end
      end
      if try('PEXPIRE', hands, format('%d', left)) ~= 1 then break end
      if kind == PLAIN and try('SETRANGE', lock, '0', pack('<I4', PLAIN + QUEUED + more)) ~= #stored then break end
      local rank = try('ZRANK', line, me)
      if type(rank) ~= 'number' then break end
      place = rank + 1
    end
    told = format('%s\n%d %d %d %d %s', told, carried + 1, ends - now, fence > floor and fence or floor, place, holder)
  elseif verb == 1 then
    if kind ~= PLAIN or fence >= ballot or ballot <= floor or ballot > micros + FAR then break end
    -- Before what it is for: whoever may not write this is granted nothing.
    if ballot > high then
      local ahead = math.max(ballot, math.min(ballot, micros) + AHEAD)
      if type(try('SETRANGE', keys[1], '4', pack('<d', ahead))) == 'table' then break end
      high = ahead
    end
    ends = now + ttl
    if stored then
      local spare, size, done = expires - ends - KEEP, 33 + #owner + #also
      local lasts = spare >= 0 and spare <= SPARE
      if size < #stored then size = #stored end
      if lasts then
        done = try('SETRANGE', lock, '12', pack('<dI4ds', ends, 1, ballot, owner) .. also)
      else
        done = try('SETRANGE', lock, '4', pack('<ddI4ds', ends + KEEP + SPARE, ends, 1, ballot, owner) .. also)
      end
      if done ~= size then break end
      if not lasts and try('PEXPIRE', lock, format('%d', ttl + KEEP + SPARE)) ~= 1 then break end
    else
      -- What is there all the same is no string.
      local done = try(
        'SET', lock, pack('<I4ddI4ds', PLAIN, ends + KEEP, ends, 1, ballot, owner),
        'PX', format('%d', ttl + KEEP), 'NX'
      )
      if not done or done.err then break end
    end
  elseif verb == 2 then
    ends = now + ttl
    -- Its fence may have been too far ahead for high when it was granted: see keep.
    if fence > ends * 1000 then break end
    local spare, count = expires - ends - KEEP, unpack('<I4', packed, behind)
    if spare >= 0 and spare <= SPARE then
      if try('SETRANGE', lock, '12', pack('<dI4', ends, count)) ~= #stored then break end
    else
      if try('SETRANGE', lock, '4', pack('<ddI4', ends + KEEP + SPARE, ends, count)) ~= #stored then break end
      if try('PEXPIRE', lock, format('%d', ttl + KEEP + SPARE)) ~= 1 then break end
    end
  elseif kind == PLAIN then
    if ballot > fence or try('SETRANGE', lock, '12', OVER) ~= #stored then break end
  else
    -- A hand-over, as below.
    local _, _, wait, _, _, next = unpack('<I4Hdddd', packed, behind)
    if ballot > fence then fence = ballot end
    if wait ~= 0 or next <= fence or next <= floor or next > micros + FAR then break end
    local match, line, hands = string.match, lock .. ':queue', lock .. ':hands'
    local waiting, me = try('ZRANGE', line, '0', '2'), match(owner, '^(.*)%.%d+$') or owner
    local first, second, third = waiting[1], waiting[2], waiting[3]
    if not first or first == me or second == me or third == me then break end
    local asked = try('HMGET', hands, first, second or first, third or first)
    if not asked[1] or #asked[1] < REGISTERED or byte(asked[1], -1) ~= 0 then break end
    local lasts, most, since, to = unpack('<ddds', asked[1])
    local client, number = match(first, '^(.*)/(%d+)$')
    lasts = math.max(lasts, now - since + math.ceil(lasts / 2))
    if not client or to == gone or now < since or lasts > most or next > (now + lasts) * 1000 then break end
    -- The first write, which is not refused for want of memory. Who gets a turn instead is
    -- registered no more either.
    if type(try('HDEL', hands, first, me)) == 'table' then break end
    local ahead = high
    if fence > ahead then ahead = math.max(fence, math.min(fence, micros) + AHEAD) end
    if next > ahead then ahead = math.max(next, math.min(next, micros) + AHEAD) end
    if ahead > high then
      if type(try('SETRANGE', keys[1], '4', pack('<d', ahead))) == 'table' then break end
      high = ahead
    end
    ends = now + lasts
    kind = (second and PLAIN + QUEUED or PLAIN) + more
    local value = pack('<I4ddI4ds', kind, ends + KEEP, ends, 1, next, to) .. also
    local held = try('SET', lock, value, 'PX', format('%d', lasts + KEEP))
    if held.err then break end
    -- What it hears must be true: all is written by then. Where it does not hear, it is put back,
    -- as the first to get a turn.
    local left, channel = try('ZREM', line, first, me), string.sub(keys[1], 1, -5) .. 'wake:'
    local heard = 0
    if type(left) == 'number' then
      heard = try('PUBLISH', channel .. client, format('%s 0 %s %d %d %d %s', number, to, next, micros, lasts, lock))
    end
    if heard == 0 or type(heard) == 'table' then
      try('SET', lock, stored, 'PX', format('%d', expires - now))
      if type(left) == 'number' then try('ZADD', line, '-inf', first) end
      break
    end
    for behind = 2, #waiting do
      local long, longest, asks = 0, 0, now
      if asked[behind] and #asked[behind] >= REGISTERED and byte(asked[behind], -1) == 0 then
        long, longest, asks = unpack('<ddd', asked[behind])
      end
      if now < asks or (now - asks) * 8 + long * 5 > longest * 8 then
        client, number = match(waiting[behind], '^(.*)/(%d+)$')
        if client then try('PUBLISH', channel .. client, number .. ' 1') end
      end
    end
  end
  carried, at, key = carried + 1, behind + 38, key + 1
end
if at > last then return time[1] .. ' ' .. time[2] .. ' ' .. (carried == 1 and 'k' or carried) .. told end

-- A kind of what is stored. What is added to a number of permits that is told in place of a hold
-- count.
local SEATS, GATE, PERMIT = 0x8000000, 0x80000000, 0x40000000
local sub = string.sub
local replies = {micros, ''}
for i = 1, carried do replies[i + 2] = 'k' end
for number, line in string.gmatch(told, '\n(%d+) ([^\n]*)') do replies[number + 2] = line end
floor = nil

-- Redis writes a large number with an exponent, if it ends with enough zeros.
local function digits(number)
  return format('%d', number)
end

-- Without memory left this is refused, and the record is read again by what comes behind it.
local function store_record(below)
  floor = nil
  call('SET', KEYS[1], pack('<I4dddds', RECORD, high, mid, below, rotated, taught))
  floor = below
end

-- Reads the record, and moves high to mid and mid to floor once a period. A clock that was set back
-- tells nothing of how long that is ago.
local function rotate()
  if floor then return end
  local record, kind, below = try('GET', KEYS[1])
  if type(record) == 'table' then
    error({
      err = string.gsub(record.err, '^WRONGTYPE.*', 'WRONGTYPE the key ' .. KEYS[1] .. ' is no record of this version')
    })
  end
  high, mid, below, rotated, taught = 0, 0, 0, nil, ''
  if record then
    if #record < SHORTEST_RECORD or sub(record, 1, 4) ~= 'QLK#' then
      error({err = 'ERR the key ' .. KEYS[1] .. ' is no record of this protocol'})
    end
    kind, high, mid, below, rotated, taught = unpack('<I4dddds', record)
    if now - rotated < PERIOD and now >= rotated then
      floor = below
      return
    end
    if now < rotated then
      -- What the clock let in that was further ahead than it is now is no floor for all names.
      high, below = math.min(high, micros + FAR), math.min(below, micros + FAR)
      mid = high
    elseif now - rotated >= 2 * PERIOD then
      mid = high
    end
  end
  below, mid, rotated = math.max(below, mid), high, now
  store_record(below)
end

local function heard(ballot)
  if ballot > high and ballot <= micros + FAR then
    local ahead = math.max(ballot, math.min(ballot, micros) + AHEAD)
    call('SETRANGE', KEYS[1], '4', pack('<d', ahead))
    high = ahead
  end
end

-- The same of what is given back: who may not write it gives back all the same. For want of memory it
-- is tried again.
local function heard_of(ballot)
  local ok, problem = pcall(heard, ballot)
  local text = type(problem) == 'table' and problem.err or problem
  -- Before version 7 Redis puts in front where in the script it refused.
  if not ok and (find(text, '^%-?OOM ') or find(text, '^@?[%w_]+: ?%d+: %-?OOM ')) then error(problem, 0) end
  return ok
end

local function readers(op, i)
  return op.locks[i] .. ':readers'
end

-- Who reads: the last of them, and for a reader whether it is itself one, was one, or was revoked.
local function look_at_readers(op, i, it)
  local key = readers(op, i)
  local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if not last[1] then
    it.read, it.fence = false, math.max(it.fence, it.shared)
    return
  end
  it.read_ends = tonumber(last[2])
  if it.read_ends > now then it.reader = string.match(last[1], '^[^!]*') end
  if not op.shared then return end
  local till, marked = tonumber(call('ZSCORE', key, op.owner) or 0), tonumber(call('ZSCORE', key, op.owner .. '!') or 0)
  it.reads, it.taken_away = math.max(till, marked) - now, marked > now and op.owner
  if till < -now then it.gone[op.owner] = true end
end

-- What is stored of an operation's name number i. Who holds it is, for a reader, it or whoever
-- keeps it out; and for others the last reader, if there are any.
local function look(op, i)
  local stored = call('GET', op.locks[i])
  local it = {
    expires = 0, ends = 0, count = 0, fence = 0, owner = '',
    whose = '', till = 0, released = '', released_till = 0, taken = '', taken_till = 0,
    read = false, shared = 0, read_ends = 0, reads = 0
  }
  if stored then
    local more
    if #stored < SHORTEST or sub(stored, 1, 3) ~= 'QLK' then
      error({err = 'ERR the key ' .. op.locks[i] .. ' is no lock of this protocol'})
    end
    it.kind, it.expires, it.ends, it.count, it.fence, it.owner, more = unpack('<I4ddI4ds', stored)
    local bits = math.floor(it.kind / QUEUED) - math.floor(PLAIN / QUEUED)
    it.queued, it.read = bits % 2 == 1, bits % 8 >= READ / QUEUED
    if bits >= SEATS / QUEUED then it.permits, it.count = it.count, 1 end
    if bits % 4 >= MORE / QUEUED then
      it.whose, it.till, it.released, it.released_till, it.taken, it.taken_till, more = unpack('<sdsdsd', stored, more)
      if it.read then it.shared = unpack('<d', stored, more) end
    end
    -- Later than that it is only where this node's clock was set back.
    it.released_till, it.taken_till = math.min(it.released_till, now + KEEP), math.min(it.taken_till, now + REMEMBERED)
    if it.released_till <= now then it.released = '' end
    if it.taken_till <= now then it.taken = '' end
  end
  local left = it.till - now
  -- Turns last seconds: this node's clock was set back since, and whoever has it may be gone.
  if left > LONGEST_TURN then left = 0 end
  local running = it.whose ~= '' and left > 0
  local owner = it.owner
  it.revoked = sub(owner, -1) == '!'
  if it.revoked then owner = sub(owner, 1, -2) end
  if it.ends > now then it.writer, it.holder, it.lasts = owner, owner, it.ends - now end
  it.turn, it.left = running and it.whose or nil, running and left or 0
  -- Whose renewals take nothing.
  it.gone = {[(it.revoked or it.ends == 0) and owner or ''] = true, [it.released] = true}
  if it.read then look_at_readers(op, i, it) end
  if op.shared then
    if it.reads > 0 then it.holder, it.lasts, it.revoked = op.owner, it.reads, it.taken_away end
  else
    if it.reader and not it.holder then it.holder, it.lasts = it.reader, it.read_ends - now end
  end
  it.bar = op.shared and it.fence or math.max(it.fence, it.shared)
  return it
end

-- Of readers, all that had a ballot up to this one when readers were revoked, and do not read.
local function is_revoked(it, owner, read_with)
  if read_with and it.reads <= 0 and read_with <= tonumber(string.match('\n' .. it.taken, '\n%*(%d+)') or -1) then return true end
  return it.taken_away == owner or it.revoked and it.owner == owner .. '!'
    or it.taken ~= '' and find('\n' .. it.taken .. '\n', '\n' .. owner .. '\n', 1, true) ~= nil
end

local function is_gone(it, owner)
  return it.gone[owner] or is_revoked(it, owner)
end

-- Whether the writer was revoked here that becomes this reader.
local function was_revoked(it, reader)
  local writer = string.gsub(reader, '/s(%d+)%.?%d*$', '/%1.')
  return sub(it.owner, 1, #writer) == writer and it.revoked
    or find('\n' .. it.taken, '\n' .. writer, 1, true) ~= nil
end

-- Who was revoked here last, with this owner behind. Behind all the highest ballot up to which all
-- readers were: revocations may come in another order than they were dealt.
local function with_taken(it, owner, ballot)
  local known, all = {}, tonumber(string.match('\n' .. it.taken, '\n%*(%d+)') or -1)
  for other in string.gmatch(it.taken, '[^\n]+') do
    if other ~= owner and sub(other, 1, 1) ~= '*' then known[#known + 1] = other end
  end
  known[#known + 1] = owner
  local taken, all = table.concat(known, '\n', math.max(1, #known - TAKEN + 1)), math.max(all, ballot or -1)
  return all >= 0 and taken .. '\n*' .. digits(all) or taken
end

-- Stores what is known of a name, and keeps it until the floor is above the fence.
local function keep(op, i, it)
  local fence, last = math.max(it.fence, it.shared), math.max(it.ends, it.read_ends, now)
  local passed = math.ceil(fence / 1000)
  local ahead = passed > last
  -- Too far for high: until clocks have passed it.
  if ahead and fence > micros + FAR then last = passed end
  if it.taken ~= '' then last = math.max(last, it.taken_till - KEEP) end
  -- What renewals of permits said of the gate stands.
  if it.permits then last = math.max(last, math.min(it.expires, now + LONGEST_TTL) - KEEP) end
  it.expires = last + KEEP
  local lasts = digits(it.expires - now)
  -- What is held is extended and released whatever the server's memory: see above.
  if it.holder then call('PEXPIRE', op.locks[i], lasts) end
  if ahead then
    -- It may have been too far when it was granted, and be so no longer.
    rotate()
    if not heard_of(fence) then
      it.expires = passed + KEEP
      lasts = digits(it.expires - now)
    end
  end
  local more = ''
  it.kind = PLAIN + (it.queued and QUEUED or 0) + (it.permits and SEATS or 0)
  if it.whose ~= '' or it.released ~= '' or it.taken ~= '' or it.read then
    it.kind, more =
      it.kind + MORE,
      pack('<sdsdsd', it.whose, it.till, it.released, it.released_till, it.taken, it.taken_till)
  end
  if it.read then it.kind, more = it.kind + READ, more .. pack('<d', it.shared) end
  call(
    'SET', op.locks[i],
    pack('<I4ddI4ds', it.kind, it.expires, it.ends, it.permits or it.count, it.fence, it.owner) .. more,
    'PX', lasts
  )
end

-- The queue is empty now. The rest is stored as it is known. Where that may not be written, an empty
-- queue is found again.
local function nobody_waits(op, i, it)
  it.queued, it.kind = false, it.kind - QUEUED
  try('SETRANGE', op.locks[i], '0', pack('<I4', it.kind))
end

-- No reader that is over comes back where the clock is set back.
local function no_reader_is_left(op, i, it)
  if it.read then call('ZREMRANGEBYSCORE', readers(op, i), digits(-now), digits(now)) end
end

local function hold(op, i, it, fence)
  it.owner, it.count, it.ends, it.fence = op.owner, op.count, now + op.ttl, fence
  heard(fence)
  keep(op, i, it)
  no_reader_is_left(op, i, it)
end

local function acquisition(owner)
  return string.match(owner, '^(.*)%.%d+$') or owner
end

local function is_shared(who)
  return find(who, '/s%d+$') ~= nil
end

-- Whether a claim is to make a reader of its own writer, without a gap: an acquisition has one
-- number as both.
local function follows(op, it)
  local writer = op.shared and not it.revoked and it.writer and acquisition(it.writer)
  return writer and string.gsub(writer, '/(%d+)$', '/s%1') == acquisition(op.owner)
end

-- It reads until then. Without memory left Redis refuses a script's ZADD, unless the script has
-- written before.
local function read(op, i, it)
  local key, till = readers(op, i), now + op.ttl
  call('ZADD', key, digits(till), op.owner)
  it.read, it.reader, it.read_ends = true, it.reader or op.owner, math.max(it.read_ends, till)
  call('ZREMRANGEBYSCORE', key, digits(-now), digits(now))
  call('PEXPIRE', key, digits(math.max(it.read_ends - now, KEEP)))
end

-- One more reads the name, with this ballot.
local function admit(op, i, it, ballot)
  it.shared = math.max(it.shared, ballot)
  -- A writer whose time is over stays out, also where the clock goes back.
  it.ends = math.min(it.ends, 1)
  heard(ballot)
  read(op, i, it)
  keep(op, i, it)
end

-- One reads no more, and takes nothing by what comes late.
local function dismiss(op, i, it)
  local key = readers(op, i)
  call('ZREM', key, op.owner .. '!')
  call('ZADD', key, digits(-now - KEEP), op.owner)
  call('ZREMRANGEBYSCORE', key, digits(-now), digits(now))
  local gone = call('ZCOUNT', key, '-inf', '(0')
  if gone > RELEASED then
    -- What seems to be of later was released before the clock was set back: that goes first.
    local many, later = gone - RELEASED, call('ZCOUNT', key, '-inf', '(' .. digits(-now - KEEP))
    local first = later < many and RELEASED or later - many
    call('ZREMRANGEBYRANK', key, first, first + many - 1)
  end
  local last = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
  it.read, it.reader, it.read_ends = true, last > now and it.reader or nil, last
  call('PEXPIRE', key, digits(math.max(last - now, KEEP)))
end

-- How many hear it; nil where it may not be published.
local function publish(client, what)
  local sent = try('PUBLISH', sub(KEYS[1], 1, -5) .. 'wake:' .. client, what)
  if type(sent) ~= 'table' then return sent end
  replies[2] = sent.err
end

-- Whether anybody hears it.
local function wake(who, what)
  local client, number = string.match(who, '^(.*)/s?(%d+)$')
  return client and (publish(client, number .. ' ' .. what) or 0) > 0
end

-- Observers of the name are to look again. Who may not publish that changes nothing else.
local function publish_news(lock)
  try('PUBLISH', lock .. ':news', lock)
end

local function queue(op, i)
  return op.locks[i] .. ':queue'
end

local function hands(op, i)
  return op.locks[i] .. ':hands'
end

-- What is registered expires with the queue. Where a key of another type is in its place, HLEN
-- fails: who asks does not wait then, and that key does not expire.
local function wait_in(op, i)
  local registered = try('HLEN', hands(op, i))
  if type(registered) == 'table' then
    call('ZREM', queue(op, i), acquisition(op.owner))
    error(registered)
  end
  if call('PTTL', queue(op, i)) >= op.wait then return end
  call('PEXPIRE', queue(op, i), digits(op.wait))
  if registered > 0 then call('PEXPIRE', hands(op, i), digits(op.wait)) end
end

-- A semaphore has more permits than before. Who registered then is handed nothing: it is to ask again,
-- and may be refused.
local function withdraw(gate)
  for _, who in ipairs(try('HKEYS', gate .. ':hands')) do call('HDEL', gate .. ':hands', who) end
end

-- Of a claim or a renewal of a gate: how many permits its semaphore has from now on.
local function seat(op, i, it)
  if not op.gate or i > 1 or it.permits and it.permits >= op.permits then return end
  if it.permits then withdraw(op.locks[i]) end
  it.permits = op.permits
end

local function join(op, i, it)
  if op.wait <= 0 then return end
  seat(op, i, it)
  local line, me = queue(op, i), acquisition(op.owner)
  call('ZADD', line, digits(op.ticket), me)
  wait_in(op, i)
  it.queued = true
  keep(op, i, it)
end

-- A claim that was refused one name, and waits for it, is who it may be handed over to. Of others
-- it is kept how long their turns must last: whoever frees the name may be nearer.
local function register(op, i)
  if op.wait <= 0 then return end
  local what = pack('<dd', op.grace, now)
  if op.next ~= 0 and #op.locks == 1 and not op.shared then
    local most = math.max(op.next, math.min(op.ttl, LONGEST_HAND_OVER))
    what = pack('<ddds', op.next, most, now, op.owner)
  end
  call('HSET', hands(op, i), acquisition(op.owner), what)
  call('PEXPIRE', hands(op, i), digits(call('PTTL', queue(op, i))))
end

-- A claim that was refused waits, if it is not a late one: who was released waits for nothing as
-- this owner. It waits for each of its names: while those are not all free, whoever comes later to
-- one of them does not get that one first, again and again.
local function queue_up(op, seen)
  for i, it in ipairs(seen) do
    if it.holder ~= op.owner and not is_gone(it, op.owner) then
      join(op, i, it)
      register(op, i)
    end
  end
end

-- Who is registered, for how long a hand-over to it lasts, and lasts at most, and how old that is.
local function registered(op, i, who)
  local known = try('HGET', hands(op, i), who)
  if type(known) ~= 'string' or #known < REGISTERED or byte(known, -1) ~= 0 then return end
  local lasts, most, at, owner = unpack('<ddds', known)
  return owner, lasts, most, now - at
end

-- Who is registered no more. In a key of another type nobody is: what it is in the way of must end
-- all the same.
local function forget(op, i, who)
  local done = try('HDEL', hands(op, i), who)
  if type(done) == 'table' and sub(done.err, 1, 9) ~= 'WRONGTYPE' then error(done) end
end

local function leave(op, i, it, who)
  if not it.queued then return end
  local line = queue(op, i)
  call('ZREM', line, who)
  forget(op, i, who)
  if call('EXISTS', line) == 0 then nobody_waits(op, i, it) end
end

-- For how long its turn is to last, if that is longer than what the giver says.
local function needs(op, i, who)
  local known = try('HGET', hands(op, i), who)
  if type(known) ~= 'string' or #known ~= 16 then return op.grace end
  return math.max(op.grace, math.min(unpack('<d', known), LONGEST_NEED))
end

-- Whether who waits asked so long ago that it has died.
local function is_silent(op, i, who)
  local known = try('HGET', hands(op, i), who)
  if type(known) ~= 'string' then return false end
  local at = #known == 16 and unpack('<d', known, 9)
  if #known >= REGISTERED and byte(known, -1) == 0 then at = unpack('<d', known, 17) end
  return at and now - at >= SILENT
end

-- Gives the first in the queue its turn, which takes it out of the queue. Until when. Where that is
-- a reader, it is also the turn of those behind it, up to the first writer.
local function give(op, i, it)
  local line, lasts = queue(op, i), op.grace
  local waiting = call('ZRANGE', line, 0, 1)
  if waiting[1] and waiting[2] and is_shared(waiting[1]) and is_shared(waiting[2]) then
    waiting = call('ZRANGE', line, 0, HEAD)
  end
  -- How many enter.
  local enter = waiting[1] and 1 or 0
  while enter > 0 and enter < HEAD and waiting[enter + 1] and is_shared(waiting[enter]) and is_shared(waiting[enter + 1]) do
    enter = enter + 1
  end
  if enter > 0 then
    for at = 1, enter do lasts = math.max(lasts, needs(op, i, waiting[at])) end
    -- First: who may not do this takes nobody out.
    for at = 1, enter do forget(op, i, waiting[at]) end
    call('ZREMRANGEBYRANK', line, 0, enter - 1)
    it.whose, it.till, it.queued = waiting[1], now + lasts, waiting[enter + 1] ~= nil
    keep(op, i, it)
    for at = 1, enter do wake(waiting[at], 0) end
  end
  if waiting[enter + 1] then
    wake(waiting[enter + 1], lasts)
  elseif it.queued then
    nobody_waits(op, i, it)
  end
end

-- Whether whoever is first in the queue may have the name, as it is.
local function is_open(op, i, it)
  if it.writer or it.turn or not it.queued then return false end
  if not it.reader then return true end
  local first = call('ZRANGE', queue(op, i), 0, 0)[1]
  return first and is_shared(first)
end

-- Grants the name that this release has freed to the first in the queue, if that is registered
-- lately enough and hears of it, and the ballot may be granted. Whether it did. The next two are
-- told to register again, if that is long ago.
local function hand_over(op, i, it)
  local ballot, line = op.next, queue(op, i)
  if ballot <= math.max(it.fence, it.shared, floor) then return false end
  local waiting = call('ZRANGE', line, 0, 2)
  if not waiting[1] then return false end
  local owner, asked, most, age = registered(op, i, waiting[1])
  -- A release or a revocation of it must not be undone by what another's release carries.
  if not owner or is_gone(it, owner) or age < 0 then return false end
  -- It counts from when it registered: half of what it asked for is left.
  local lasts = math.max(asked, age + math.ceil(asked / 2))
  if lasts > most then return false end
  -- What it hears must be true. What a user may not write is refused before that; the SET behind it is
  -- allowed, since this release has stored the name before.
  call('HDEL', hands(op, i), waiting[1])
  if not heard_of(ballot) then return false end
  if not wake(
    waiting[1],
    '0 ' .. owner .. ' ' .. digits(ballot) .. ' ' .. digits(micros) .. ' ' .. digits(lasts) .. ' ' .. op.locks[i]
  ) then
    return false
  end
  it.owner, it.count, it.ends, it.fence, it.whose, it.queued = owner, 1, now + lasts, ballot, '', waiting[2] ~= nil
  keep(op, i, it)
  -- Nothing rests on these, and it is released and handed over by now.
  try('ZREM', line, waiting[1])
  pcall(no_reader_is_left, op, i, it)
  for next = 2, #waiting do
    local _, long, longest, since = registered(op, i, waiting[next])
    if long and (since < 0 or since * 8 + long * 5 > longest * 8) then wake(waiting[next], 1) end
  end
  return true
end

-- Where this claim stands in the queue, from 1; 0 if it does not wait.
local function place(op, i)
  local rank = op.wait > 0 and call('ZRANK', queue(op, i), acquisition(op.owner))
  return rank and rank + 1 or 0
end

-- Who comes before a reader, which only writers do: the first that waits, and not if that is far
-- behind, or asked so long ago that it has died: while others read, nobody gives it a turn that would
-- end.
local function first_writer(op, i)
  local waiting = call('ZRANGE', queue(op, i), 0, HEAD - 1, 'WITHSCORES')
  for at = 1, #waiting, 2 do
    if not is_shared(waiting[at]) and not is_silent(op, i, waiting[at]) then
      return waiting[at], tonumber(waiting[at + 1])
    end
  end
end

-- Who comes before this claim to lock number i, which nobody keeps from it, for how long, and
-- whether the turn is still to be given; nobody if it may have it.
local function before(op, i, it)
  if op.wait < 0 then return end
  local me = acquisition(op.owner)
  if it.turn == me then return end
  if it.turn and not (op.shared and is_shared(it.turn)) then return it.turn, it.left, false end
  if not it.queued then return end
  local first, theirs
  if op.shared then
    first, theirs = first_writer(op, i)
  else
    first, theirs = all(call('ZRANGE', queue(op, i), 0, 0, 'WITHSCORES'))
    theirs = tonumber(theirs)
  end
  if not first or first == me then return end
  local ticket = op.ticket
  if op.wait > 0 and (ticket < theirs or ticket == theirs and me < first) then return end
  return first, op.grace, is_open(op, i, it)
end

-- Whether this owner may have a note.
local function has_note(owner)
  return find(owner, '%.0%d+$') ~= nil
end

-- What this owner says of itself, as it is told; and the number of that note.
local function note(op, i, owner)
  local stored = try('GET', op.locks[i] .. ':note')
  if type(stored) ~= 'string' or #stored < SHORTEST_NOTE or sub(stored, 1, 4) ~= 'QLN#' then return end
  local _, since, token, number, whose, behind = unpack('<I4ddI4s', stored)
  if whose ~= owner then return end
  return format('%d %d %d ', math.max(0, now - since), token, number) .. sub(stored, behind), number
end

-- Stores what the holder says of itself. Nothing rests on it: what cannot be stored is left out, and a
-- key of another kind is left alone.
local function describe(op, i, it)
  local key = op.locks[i] .. ':note'
  local stored, _, number = try('GET', key), note(op, i, op.owner)
  if stored and (type(stored) ~= 'string' or sub(stored, 1, 4) ~= 'QLN#') then return end
  if number and number > op.next then return end
  local value = pack('<I4ddI4s', NOTE, now - op.grace, op.ballot, op.next, op.owner) .. op.says
  local done = try('SET', key, value, 'PX', digits(it.ends - now + KEEP))
  if number ~= op.next and not done.err and has_note(op.owner) then publish_news(op.locks[i]) end
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
    if not it.holder then bar = math.max(bar, it.bar, floor) end
  end
  return bar
end

-- What a claim misuses: how many permits the semaphore has whose gate the name is, or 0 where that is
-- held as a lock.
local function misused(op, i, it)
  local gate = op.gate and i == 1
  if it.permits then return (not gate or op.permits < it.permits) and it.permits end
  return gate and it.holder and it.holder ~= op.owner and 0
end

-- Permits were renewed: how many there are is remembered with the gate for as long as that. What says
-- fewer than is known adds nothing. Nothing that the renewal comes to rests on it.
local function remember(op)
  local gate, was = string.gsub(op.locks[1] or '', '/%d+}$', '}')
  if was == 0 then return end
  local stored, expires = try('GET', gate), now + op.ttl + KEEP
  if not stored then
    try('SET', gate, pack('<I4ddI4ds', PLAIN + SEATS, expires, 0, op.permits, 0, ''), 'PX', digits(op.ttl + KEEP))
  elseif type(stored) == 'string' and #stored >= SHORTEST and sub(stored, 1, 3) == 'QLK' then
    local kind, before, _, permits = unpack('<I4ddI4', stored)
    if kind < PLAIN + SEATS or permits > op.permits then return end
    if permits < op.permits then withdraw(gate) end
    expires = math.max(before, expires)
    try('SETRANGE', gate, '4', pack('<d', expires))
    try('SETRANGE', gate, '20', pack('<I4', op.permits))
    try('PEXPIRE', gate, digits(expires - now))
  end
end

local verbs = {}

function verbs.claim(op)
  rotate()
  local seen = look_all(op)
  local bar, ballot = highest_bar(seen), op.ballot
  local top = ballot
  for i, it in ipairs(seen) do
    -- Who waited for a name that most nodes have taken away would have it when they are free.
    if is_revoked(it, op.owner) or op.shared and was_revoked(it, op.owner) then return {'lost', ''} end
    local permits = misused(op, i, it)
    if permits then return {'misused', i, permits} end
    local follows = follows(op, it)
    if it.holder == op.owner then
      local fence = op.shared and 0 or it.fence
      if not op.shared then top = math.max(top, fence) end
      -- Granted while the node was in doubt, and it was taught since.
      if math.max(ballot, fence) <= floor then return {'stale', floor} end
    elseif it.holder and not follows then
      queue_up(op, seen)
      return {'held', it.holder, it.lasts, math.max(it.bar, floor), place(op, i)}
    else
      -- A reader's release raises no fence that other readers' ballots must be above.
      if ballot <= math.max(it.bar, floor) or op.shared and it.gone[op.owner] then
        return {'stale', math.max(bar, it.bar, floor)}
      end
      local who, left, due
      if not follows then who, left, due = before(op, i, it) end
      if who then
        queue_up(op, seen)
        if due then
          give(op, i, it)
          left = it.till - now
        end
        return {'reserved', who, left, math.max(it.bar, floor), place(op, i)}
      end
    end
  end
  local me = acquisition(op.owner)
  for i, it in ipairs(seen) do
    seat(op, i, it)
    if op.shared then
      local turn = it.turn == me
      if turn or not it.turn or not is_shared(it.turn) then it.whose, it.turn = '', nil end
      if it.writer then it.ends, it.writer = 0, nil end
      admit(op, i, it, top)
      leave(op, i, it, me)
      -- Those behind it may enter, as well.
      if is_open(op, i, it) then give(op, i, it) end
    else
      it.whose = ''
      hold(op, i, it, top)
      leave(op, i, it, me)
    end
  end
  return {'granted', top}
end

function verbs.renew(op)
  local seen, reply = look_all(op), 'extended'
  for i, it in ipairs(seen) do
    if it.holder and it.holder ~= op.owner then return {'lost', it.holder} end
    if it.holder and it.revoked then return {'lost', ''} end
    if not it.holder then
      if it.turn and not (op.shared and is_shared(it.turn)) then return {'lost', it.turn} end
      -- A renewal that was overtaken must not revive what was released or revoked.
      if is_gone(it, op.owner) or op.shared and is_revoked(it, op.owner, op.ballot) then return {'lost', ''} end
      reply = 'healed'
    end
  end
  for i, it in ipairs(seen) do
    seat(op, i, it)
    if not it.holder then rotate() end
    if op.shared and it.holder then
      -- First: what is held is renewed whatever the server's memory.
      call('PEXPIRE', readers(op, i), digits(math.max(op.ttl, it.read_ends - now, KEEP)))
      read(op, i, it)
      keep(op, i, it)
    elseif op.shared then
      admit(op, i, it, op.ballot)
    elseif it.holder then
      it.count, it.ends = op.count, now + op.ttl
      keep(op, i, it)
    else
      hold(op, i, it, math.max(it.bar, op.ballot))
    end
    -- No reader has one.
    if op.says and not op.shared then describe(op, i, it) end
  end
  if op.permits and not op.gate then remember(op) end
  return {reply}
end

function verbs.release(op)
  local seen, mine, noted, freed, me = look_all(op), {}, {}, 0, acquisition(op.owner)
  for i, it in ipairs(seen) do
    if it.holder == op.owner then
      if op.shared then
        call('ZREM', readers(op, i), op.owner, op.owner .. '!')
      else
        -- In this order: see above.
        call('PEXPIRE', op.locks[i], digits(math.max(it.expires, it.ends + KEEP) - now))
        -- A user who may not write so has it all the same by what is stored below.
        try('SETRANGE', op.locks[i], '12', OVER)
        it.ends, it.writer = 0, nil
      end
      it.holder, mine[i], freed = nil, true, freed + 1
    end
    if has_note(op.owner) and note(op, i, op.owner) then
      try('DEL', op.locks[i] .. ':note')
      noted[i] = mine[i]
    end
  end
  rotate()
  for i, it in ipairs(seen) do
    if op.shared then
      it.shared = math.max(it.shared, op.ballot)
      heard_of(it.shared)
      dismiss(op, i, it)
    else
      it.fence = math.max(it.fence, op.ballot)
      heard_of(it.fence)
      if not mine[i] then it.released, it.released_till = op.owner, now + KEEP end
    end
    -- What is given back for an earlier owner leaves the acquisition what it has as another.
    if it.turn == me and op.wait >= 0 then it.whose, it.turn = '', nil end
    keep(op, i, it)
    if op.wait == 0 then
      leave(op, i, it, me)
    else
      join(op, i, it)
      -- What is registered may be a later round.
      if it.queued and registered(op, i, me) == op.owner then forget(op, i, me) end
    end
    if is_open(op, i, it) and not (mine[i] and hand_over(op, i, it)) then give(op, i, it) end
    if noted[i] then publish_news(op.locks[i]) end
  end
  return {'released', freed}
end

-- Who reads, and was not revoked; nobody if all were. Those that were revoked are looked at so many
-- at a time.
local function another_reader(op, i)
  local from, reading = 0
  repeat
    reading = call('ZREVRANGEBYSCORE', readers(op, i), '+inf', '(' .. digits(now), 'LIMIT', from, MOST)
    for _, reader in ipairs(reading) do
      if sub(reader, -1) ~= '!' then return reader end
    end
    from = from + MOST
  until #reading < MOST
end

-- No reader is renewed any more.
local function mark_readers(op, i, it)
  local key = readers(op, i)
  local reading = call('ZREVRANGEBYSCORE', key, '+inf', '(' .. digits(now), 'WITHSCORES')
  for at = 1, #reading, 2 do
    local reader = reading[at]
    if sub(reader, -1) ~= '!' then
      call('ZREM', key, reader)
      call('ZADD', key, reading[at + 1], reader .. '!')
    end
  end
  call('PEXPIRE', key, digits(math.max(it.read_ends - now, KEEP)))
end

function verbs.revoke(op)
  rotate()
  local seen, held, longest, other = look_all(op), 0, 0, ''
  for i, it in ipairs(seen) do
    -- It may have come after the nodes were asked who holds it. The fence does not tell: others
    -- raise it.
    if not it.reader then
      if it.holder and it.holder ~= op.owner then other = it.holder end
    elseif not op.shared then
      -- One that was revoked holds it still.
      other = another_reader(op, i) or it.reader
    end
    it.fence = math.max(it.fence, op.ballot)
    heard(it.fence)
    if op.shared and it.reader then
      held, longest = held + 1, math.max(longest, it.read_ends - now)
      mark_readers(op, i, it)
    elseif it.holder == op.owner then
      held, longest = held + 1, math.max(longest, it.lasts)
      it.owner = op.owner .. '!'
    end
    -- A renewal would take it here, now or when others had it since, and the next one would count.
    it.taken, it.taken_till = with_taken(it, op.owner, op.shared and op.ballot), now + REMEMBERED
    -- Readers that are not here may have been revoked elsewhere.
    keep(op, i, it)
  end
  return {'revoked', held, longest, other}
end

function verbs.inspect(op)
  local reply = {'inspected'}
  for i = 1, #op.locks do
    local it = look(op, i)
    local left, line = it.lasts or -2, call('ZCARD', queue(op, i))
    local holder, count = it.holder and (it.holder .. (it.revoked and '!' or '')), it.holder and it.count or 0
    if it.reader then
      holder = another_reader(op, i) or it.reader .. '!'
      count = call('ZCOUNT', readers(op, i), '(' .. digits(now), '+inf')
    end
    if it.permits then count = GATE + it.permits end
    local says = holder and has_note(it.holder) and note(op, i, it.holder) or ''
    for _, part in ipairs({holder or '', count, left, it.bar, line, it.turn or '', it.left, says}) do
      reply[#reply + 1] = part
    end
  end
  return reply
end

function verbs.teach(op)
  rotate()
  local told = math.min(op.ballot, micros + FAR)
  high, mid = math.max(high, told), math.max(mid, told)
  -- By hand: its own list's clients may know of higher ones, and must teach it still.
  if op.grace == 0 then taught = RUN end
  store_record(math.max(floor, told))
  return {'taught'}
end

function verbs.record()
  rotate()
  return {'record', high, floor, taught}
end

-- RUN also names what the process was a replica of, for a while.
local function process()
  return string.match(RUN, '^[^/]*')
end

-- What a roster holds that has not expired. Nothing lasts longer than it was told to last: where it
-- does, the clock was set back since.
local function roster(key)
  local stored, it = call('HGETALL', key), {entries = {}, told = {}, dead = {}, size = 0, most = 0, lasts = 0}
  local servers, seen, written = {}, {}
  for i = 1, #stored, 2 do
    local kind, what, ends = sub(stored[i], 1, 1), sub(stored[i], 2), tonumber(stored[i + 1])
    if kind == '/' then
      servers[what] = ends
    elseif kind == '=' and ends > now then
      local limit = now + what + ROSTER + ROSTER_SPARE
      it.told[what], it.stepped = math.min(ends, limit), it.stepped or ends > limit
      it.most = math.max(it.most, tonumber(what))
    elseif kind == '=' then
      it.dead[#it.dead + 1] = stored[i]
    else
      seen[stored[i]] = ends
      if kind == 'r' then written = stored[i + 1] end
    end
  end
  -- What another process wrote was loaded from disk: its clients come again, or have gone.
  local loaded = written and written ~= process()
  local limit = now + it.most + ROSTER + ROSTER_SPARE
  for run, ends in pairs(servers) do
    if ends > now and not loaded then
      it.entries[run], it.size, it.stepped = math.min(ends, limit), it.size + 1, it.stepped or ends > limit
      it.lasts = math.max(it.lasts, it.entries[run] - now)
    else
      it.dead[#it.dead + 1] = '/' .. run
    end
  end
  it.nodes, it.protocol = it.size > 0 and seen.n or 0, it.size > 0 and seen.p or 0
  return it
end

-- Puts the servers of a list in, each in the room of those before it, and for as long as those had
-- it: votes may rest on them. Whether they fit.
local function enter(it, op, ends)
  local fits, lasts = it.size == 0 or it.nodes == op.count and it.protocol == op.ballot, {}
  for server in string.gmatch(op.owner, '%S+') do
    local run = string.match(server, '^[^<]+')
    lasts[run] = math.max(it.entries[run] or 0, ends)
    for before in string.gmatch(server, '<([^<]+)') do
      lasts[run] = math.max(lasts[run], it.entries[before] or 0)
    end
  end
  for run in string.gmatch(op.owner, '<([^ <]+)') do
    if it.entries[run] then
      it.entries[run], it.size = nil, it.size - 1
      it.dead[#it.dead + 1] = '/' .. run
    end
  end
  for run, till in pairs(lasts) do
    if not it.entries[run] then it.size = it.size + 1 end
    it.entries[run] = till
  end
  return fits and it.size <= op.count
end

-- Takes note of a client's longest ttl. Smaller ones that end sooner tell nothing more.
local function tell(it, ttl, ends)
  local needed = ttl > 0
  for known, till in pairs(it.told) do
    if tonumber(known) <= ttl and till <= ends then
      it.told[known] = nil
      it.dead[#it.dead + 1] = '=' .. known
    elseif tonumber(known) >= ttl and till >= ends then
      needed = false
    end
  end
  if needed then it.told[digits(ttl)] = ends end
end

-- Whether all that is to be written is there until then, and nothing is to go: a clock that was set
-- back must not keep what it let in.
local function has_all(it, op, till)
  if it.stepped then return false end
  for run in string.gmatch(op.owner, '<([^ <]+)') do
    if it.entries[run] then return false end
  end
  for server in string.gmatch(op.owner, '%S+') do
    if (it.entries[string.match(server, '^[^<]+')] or 0) < till then return false end
  end
  for ttl, ends in pairs(it.told) do
    if tonumber(ttl) >= op.ttl and ends >= till then return true end
  end
  return op.ttl <= 0
end

local function tell_roster(word, it)
  local since = call('GET', KEYS[1] .. ':retired')
  local reply = {
    word, it.nodes, it.protocol, it.most, it.lasts,
    since and math.max(0, now - (tonumber(since) or now)) or -1
  }
  for run in pairs(it.entries) do reply[#reply + 1] = run end
  return reply
end

-- From then on its clients count no vote of it. Its roster goes on: clients of other lists must
-- find each other out there.
function verbs.retire()
  local key, it = KEYS[1] .. ':retired', roster(KEYS[1] .. ':roster')
  local since = call('GET', key)
  -- First: without memory left Redis refuses a script's SET, unless the script has written before.
  call('DEL', key)
  call('SET', key, since or digits(now))
  return tell_roster('retired', it)
end

function verbs.reset()
  local reply = tell_roster('reset', roster(KEYS[1] .. ':roster'))
  call('DEL', KEYS[1] .. ':retired')
  return reply
end

function verbs.enrol(op)
  local key, till = KEYS[1] .. ':roster', now + op.grace
  local it = roster(key)
  local known, ends = has_all(it, op, till), till + ROSTER_SPARE
  local reply = tell_roster('listed', it)
  if op.ttl > LONGEST_TTL or not enter(it, op, ends) then
    reply[1] = 'unlisted'
    return reply
  end
  if op.grace <= 0 or op.owner == '' or known then return reply end
  tell(it, op.ttl, ends)
  -- First, and whether it is there or not: without memory left Redis refuses a script's HSET,
  -- unless the script has written before.
  call('PEXPIRE', key, digits(op.grace))
  for _, field in ipairs(it.dead) do call('HDEL', key, field) end
  call('HSET', key, 'n', digits(op.count), 'p', digits(op.ballot), 'r', process())
  local last = 0
  for kind, all in pairs({['/'] = it.entries, ['='] = it.told}) do
    for what, till in pairs(all) do
      call('HSET', key, kind .. what, digits(till))
      last = math.max(last, till)
    end
  end
  call('PEXPIRE', key, digits(last - now))
  return reply
end

-- Redis does not say which key is of another type. What may not be looked at is left out.
local function wrong(op)
  local found = ''
  local function look(key, right)
    local kind = redis.pcall('TYPE', key).ok
    if kind and kind ~= right and kind ~= 'none' then
      found = found .. (found == '' and ' ' or ', ') .. 'the key ' .. key .. ' is a ' .. kind
    end
  end
  look(KEYS[1], 'string')
  look(KEYS[1] .. ':roster', 'hash')
  look(KEYS[1] .. ':retired', 'string')
  for _, lock in ipairs(op.locks) do
    look(lock, 'string')
    look(lock .. ':queue', 'zset')
    look(lock .. ':hands', 'hash')
    look(lock .. ':note', 'string')
    look(lock .. ':readers', 'zset')
  end
  return found
end

-- Before version 7 Redis puts in front where in the script it refused.
local function said(problem, op)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  text = string.gsub(text, '^@?[%w_]+: %d+: %-?', '')
  if string.sub(text, 1, 9) == 'WRONGTYPE' then text = 'WRONGTYPE' .. wrong(op) end
  return {'error', text}
end

local WORDS = {
  'claim', 'renew', 'release', 'inspect', 'teach', 'record', 'revoke', 'enrol', 'retire', 'reset'
}

while at <= last do
  local op, verb, names = {locks = {}}
  verb, op.ttl, op.ballot, op.owner, op.count, names, op.wait, op.grace, op.ticket, op.next, at =
    unpack('<BddsI4Hdddd', packed, at)
  for name = 1, names do
    op.locks[name] = KEYS[key]
    key = key + 1
  end
  if verb % 32 == 2 and find(op.owner, '\n', 1, true) then
    op.owner, op.says = string.match(op.owner, '^([^\n]*)\n(.*)$')
  end
  op.shared = find(op.owner, '/s%d+%.%d+$') ~= nil
  if op.count >= PERMIT and verb % 32 <= 2 then
    op.gate, op.permits, op.count = op.count >= GATE, op.count % PERMIT, 1
  end
  local ok, reply = pcall(verbs[WORDS[verb % 32]], op)
  replies[#replies + 1] = ok and reply or said(reply, op)
end
return replies
