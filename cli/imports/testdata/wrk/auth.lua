-- The first response has the token for all that follow.
local token, path = nil, "/login"

request = function()
   return wrk.format("GET", path)
end

response = function(status, headers, body)
   if not token and status == 200 then
      token = headers["X-Token"]
      path = "/orders"
      wrk.headers["X-Token"] = token
   end
end
