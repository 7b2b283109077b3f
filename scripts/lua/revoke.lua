-- Revokes names: see docs/protocol.md.
-- KEYS    P..node; for each name P{name}, :readers
-- ARGV    names, ballot
-- Returns revoked, and of the hold that ends last: HOLDER ('' if all names are free), BALLOT (if
--         readers hold the name: `read_fence`), MS LEFT
return each(2, 2, function(at, key)
  first, names, ballot = key, ARGV[at] + 0, ARGV[at + 1] + 0
  rotate()
  local holder, with, longest = '', 0, 0
  for _, it in ipairs(look_all()) do
    it.fence, it.revoked_until = max(it.fence, ballot), now + REMEMBERED
    keep(it, 'over', digits(max(it.over, ballot)), 'revoked_until', digits(it.revoked_until))
    if it.holder and it.holds_until - now >= longest then
      holder, with, longest = it.holder, it.holds_with, it.holds_until - now
    end
  end
  return {'revoked', holder, with, longest}
end)
