-- include: expire_and_promote
-- include: job_rows
-- The answer of scripts that post batches by `post_jobs` of posting.lua. They call `expire_and_promote` before and
-- `write_back` afterwards.

-- Whether a job that was posted stands as it was sent, but for the lane that it may wait for.
local function is_as_sent(job, ties)
  return job.state == 'BLOCKED' or job.state == 'DELAYED' or job.state == 'UNCLAIMED' and not (ties and ties.parents)
end

-- As post.lua describes it.
local function posted_answer(items, outcomes, found, is_refused, missing)
  local codes, others, seen = {}, {}, {}
  for index = #items, 1, -1 do
    -- A job that a later item of the same batch changed is returned as it is in the end.
    local job, is_changed_later = found[index], is_refused or seen[found[index].uuid]
    if outcomes[index] == 'POSTED' and not is_changed_later and is_as_sent(job, ties_in(items[index])) then
      codes[index] = job.state == 'BLOCKED' and -job.sequence or job.sequence
    else
      codes[index] = missing[index] and {outcomes[index], missing[index]} or outcomes[index]
      table.insert(others, 1, job)
    end
    seen[job.uuid] = true
  end
  return {is_refused and 'REFUSED' or 'OK', now, codes, job_rows(others)}
end
