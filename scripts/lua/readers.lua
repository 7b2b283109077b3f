-- The readers of a name. Each reader has a hold of its own.

-- Stores a corrected time: the clock was set back, so the stored time was too far ahead of TIME.
-- Except in claims, HDEL of a missing field comes first: it needs no memory (see common.lua), and
-- does not change the key's expiry.
local function write(key, field, value)
  if inspects then return end
  if not claims then call('HDEL', key, '') end
  call('HSET', key, field, value)
end

-- Returns the reader whose hold ends last of those with ballots above `above`, and the number of
-- all readers.
local function last_reader(it, above)
  local last, many = nil, 0
  for reader, known in pairs(it.reading) do
    many = many + 1
    if known.ballot > above and (not last or known.ends > it.reading[last].ends) then last = reader end
  end
  return last, many
end

-- Finds the last reader. If no reader is left, the fence becomes at least `read_fence`.
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

-- Gives `who` a hold as a reader, or extends its hold. Moves neither the end nor the ballot back.
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
  -- In a downgrade, the writer has become this reader. Otherwise the writer's hold has expired, and
  -- must not come back if the clock is set back.
  if it.owner then free(it) end
  it.read_fence = max(it.read_fence, ballot)
  keep(it)
end
