-- Health of a NodeUpgrade for Argo CD. Only the basic functions are used: Argo CD offers no string library here.
--
--   Healthy      it did what it was asked for: every node is upgraded or skipped, or the plan is ready
--   Progressing  it works, or will go on by itself
--   Suspended    it waits for a person or for a window; nothing is wrong
--   Degraded     it needs a person, or it ended without success

local waiting = { Paused = true, AwaitingApproval = true, WaitingForWindow = true }

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "Deleting; nodes in flight come to their end first" }
end

local status = obj.status
if status == nil or status.conditions == nil then
  return { status = "Progressing", message = "Waiting for the operator to look at it" }
end
if status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to look at the latest change" }
end

local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end

local function health(name, condition)
  local text = condition.message or ""
  if status.progress ~= nil and status.progress ~= "" then
    text = status.progress .. " nodes: " .. text
  end
  return { status = name, message = text }
end

local stalled = conditions["Stalled"]
if stalled ~= nil and stalled.status == "True" then
  return health("Degraded", stalled)
end

local reconciling = conditions["Reconciling"]
local ready = conditions["Ready"] -- its message says what is in the way, if anything is
if reconciling ~= nil and reconciling.status == "True" then
  if waiting[reconciling.reason] then
    return health("Suspended", ready or reconciling)
  end
  return health("Progressing", ready or reconciling)
end

local succeeded = conditions["Succeeded"]
if succeeded ~= nil and succeeded.status == "False" then
  return health("Degraded", succeeded)
end

if ready ~= nil and ready.status == "True" then
  return health("Healthy", ready)
end

return { status = "Progressing", message = "Waiting for the operator to report" }
