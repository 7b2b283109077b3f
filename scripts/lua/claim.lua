-- Grants all names of a claim, or none: docs/protocol.md lists the checks in their order.
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue; a gate's keys come last
-- ARGV    names (a gate counts as one), list (of the client; '': not checked), owner, mode ('lock',
--         'reader', or 'permit': also checks the gate), kind, ttl, ballot, from and follows (the
--         owner whose holds this claim takes over, and its token; '' and 0: takes over nothing),
--         arrival, H, again (ms to the next ask; 0: this claim does not wait), next
-- Returns nothing if all names are granted, or the first refusal: nolist; other, TEXT, MS LEFT;
--         stale, BAR; lost, ''; misused, NUMBER (of the name, from 1); held, HOLDER, MS LEFT, BAR
--         (`read_fence` counts too), PLACE (0: none), KIND
claims = true

local GATE = 3

-- Whether the name is held as a gate and claimed as something else, or the reverse.
local function misused(it, is_gate)
  local held_as_gate = it.ends > now and it.kind == GATE
  return it.holder and held_as_gate ~= is_gate
end

-- Names the writer that holds the name, or else a reader. A reader's claim too may be refused
-- because of a reader: a writer may wait between the two.
local function held(it)
  local place = again > 0 and more().join(it) or 0
  local bar = max(it.fence, it.read_fence, floor)
  if it.ends > now then return {'held', it.owner, it.ends - now, bar, place, it.kind} end
  return {'held', it.reader, it.read_ends - now, bar, place, 0}
end

local function stale(seen, bar)
  for i = 1, names do
    if not seen[i].holder or seen[i].holder == owner then bar = max(bar, seen[i].bar) end
  end
  return {'stale', bar}
end

-- The refusal of name number `i`; nil or false if this name can be granted.
local function refusal(seen, i, from, follows)
  local it = seen[i]
  -- The claimer may have taken over the lock before: this has raised `over` to `follows`.
  local token = it.holder == owner and it.holds_with or follows
  if from ~= '' and (token <= it.over or not it.holder) then return {'lost', ''} end
  if misused(it, kind + 0 == GATE) then return {'misused', i} end
  local takes_over = from ~= '' and it.ends > now and it.owner == from
  if it.holder == owner then
    -- The hold's ballot may be above the fence, which readers do not raise, or below the floor,
    -- which a sync may have raised.
    local with = it.holds_with
    local is_again, is_new = ballot == with, ballot > max(it.fence, with)
    local is_good = (is_again or is_new) and ballot > max(floor, it.over)
    return not is_good and stale(seen, max(it.bar, with))
  end
  if it.holder and not takes_over then return held(it) end
  if ballot <= it.bar then return stale(seen, it.bar) end
  if takes_over or not it.queue or next_ballot <= ballot then return end
  local other = more().head(it, true)
  if not other or again > 0 and other.arrival > arrival then return end
  more().hand_over(it, next_ballot)
  return held(it)
end

return each(13, 4, function(at, key)
  local of, mode, from, follows
  first, names, of, owner, mode, kind, ttl, ballot, from, follows, arrival, lasts, again = key, unpack(ARGV, at, at + 11)
  names, ttl, ballot, next_ballot = names - (mode == 'permit' and 1 or 0), ttl + 0, ballot + 0, ARGV[at + 12] + 0
  arrival, lasts, again, is_reader = arrival + 0, lasts + 0, again + 0, mode == 'reader'
  if of ~= '' and of ~= list then
    if not list then return {'nolist'} end
    local says, longest = unpack(call('HMGET', KEYS[1], 'says', 'lasts'))
    return {'other', says, min(list_ends - now, longest)}
  end
  rotate()
  local seen = look_all()
  if mode == 'permit' then
    local gate = look(key + names * group)
    if misused(gate, true) then return {'misused', names + 1} end
    local who, left = gate.holder, gate.holder and gate.holds_until - now or 0
    who = who or gate.queue and more().hand_over(gate, 0)
    if who then return {'held', who, left, gate.bar, 0, GATE} end
  end
  for i = 1, names do
    local refused = refusal(seen, i, from, follows + 0)
    if refused then return refused end
  end
  for _, it in ipairs(seen) do
    -- Late renewals of `from` must not bring its hold back.
    if from ~= '' then call('HSET', it.lock, 'over', digits(max(it.over, follows))) end
    if is_reader then more().read(it, owner, ttl, ballot) else hold(it, owner, kind, ballot, '1', ttl) end
    if it.queue then more().leave(it) end
    if it.queue and is_reader then more().hand_over(it, next_ballot) end
  end
end)
