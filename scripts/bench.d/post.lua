-- wrk posts one body again and again: wrk -s post.lua URL -- BODY_FILE CHECK 'Name: value' ...
-- With CHECK `body` it reads every answer and counts those that hold an error: a fast refusal is no result.

bad, sample = 0, nil
local threads = {}

function setup(thread) table.insert(threads, thread) end

function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  file:close()
  if args[2] == "body" then response = count end
  for i = 3, #args do
    local name, value = args[i]:match("^(.-): (.*)$")
    wrk.headers[name] = value
  end
end

function count(status, _, body)
  if status == 200 and not body:find('"isError":true', 1, true) and body:find('"result":', 1, true) then return end
  bad = bad + 1
  sample = sample or (status .. " " .. body:sub(1, 300):gsub("%s", " "))
end

function done(summary, latency)
  local errors = summary.errors
  local refused = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  for _, thread in ipairs(threads) do
    refused = refused + thread:get("bad")
    sample = sample or thread:get("sample")
  end
  print(string.format("RESULT %d %d %d %d %d", summary.requests, summary.duration, refused,
    latency:percentile(50), latency:percentile(99)))
  if sample then print("SAMPLE " .. sample) end
end
