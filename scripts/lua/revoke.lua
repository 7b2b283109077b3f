-- Lets the hold of an owner end: it is not renewed any more. If the owner is a reader, of all
-- readers.
--
-- KEYS    P..node; for each name P{name}, :readers
-- ARGV    names, owner, mode, ballot
-- Returns revoked, HOW MANY of the names the owner holds, MS LEFT at most, WHO else holds one or ''

group = 2

-- How many revoked owners a name remembers.
local TAKEN = 24

-- Behind all the highest ballot up to which readers were: revocations may come in another order
-- than they were dealt.
local function with_taken(it)
  local known, taken = {}, it.taken or ''
  local all = max(tonumber(match('\n' .. taken, '\n%*(%d+)') or -1), is_reader and ballot or -1)
  for other in string.gmatch(taken, '[^\n]+') do
    if other ~= owner and string.sub(other, 1, 1) ~= '*' then known[#known + 1] = other end
  end
  known[#known + 1] = owner
  local owners = table.concat(known, '\n', max(1, #known - TAKEN + 1))
  return all >= 0 and owners .. '\n*' .. digits(all) or owners
end

local function mark_readers(it)
  local key = KEYS[it.at + READERS]
  local reading = call('ZREVRANGEBYSCORE', key, '+inf', '(' .. digits(now), 'WITHSCORES')
  for at = 1, #reading, 2 do
    if string.sub(reading[at], -1) ~= '!' then
      call('ZREM', key, reading[at])
      call('ZADD', key, reading[at + 1], reading[at] .. '!')
    end
  end
  call('PEXPIRE', key, digits(max(it.read_ends - now, KEEP)))
end

-- Who else holds the name: it may have come after the nodes were asked. Readers that were revoked
-- hold it still.
local function other_holder(it)
  if it.reader then return not is_reader and (more().another_reader(it) or it.reader) end
  return it.holder ~= owner and it.holder
end

return each(4, 2, function(at, key)
  local mode
  first, names, owner, mode, ballot = key, unpack(ARGV, at, at + 3)
  names, ballot, is_reader = names + 0, ballot + 0, mode == 'reader'
  local put, held, longest, other = more().put, 0, 0, ''
  for _, it in ipairs(look_all()) do
    other = other_holder(it) or other
    if is_reader and it.reader then
      held, longest = held + 1, max(longest, it.read_ends - now)
      mark_readers(it)
    elseif it.holder == owner then
      held, longest = held + 1, max(longest, it.ends - now)
      put(it, 'revoked', true)
    end
    -- A renewal that comes late would take the name, here or where it was not held.
    put(it, 'taken', with_taken(it))
    put(it, 'taken_until', now + REMEMBERED)
    put(it, 'fence', max(it.fence, ballot))
    keep(it)
    heard(it.fence)
  end
  return {'revoked', held, longest, other}
end)
