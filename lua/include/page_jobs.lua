-- include: merge_indexes
-- include: job_rows
-- The answer of a script that lists jobs.

local MAX_PAGE_BYTES = 1048576

-- Returns OK, the next place (an empty string at the end), and of the next `size` members of these indexes, after a
-- place or from the head, those that `is_shown` lets pass.
local function page_jobs(indexes, after, size, is_shown)
  local members, last = merge_indexes(indexes, after, size)
  local uuids = uuids_of(members)
  fetch(uuids)
  fetch_finished(uuids)
  local found = {}
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and is_shown(job) then
      found[#found + 1] = job
    end
  end
  -- Large jobs make a page shorter.
  local rows, count = job_rows_within(found, MAX_PAGE_BYTES)
  if count < #found then
    return {'OK', found[count].place .. ' ' .. member_of(found[count].uuid, found[count].sequence), rows}
  end
  return {'OK', #uuids == size and last or '', rows}
end
