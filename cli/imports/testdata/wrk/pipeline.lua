-- Three requests at once on each connection; some without a body.
local all
init = function(args)
   local r = {}
   r[1] = wrk.format("GET", "/?a")
   r[2] = wrk.format("DELETE", "/items/17")
   r[3] = wrk.format("PUT", "/items/18", {["Content-Type"] = "text/plain", Host = "shop.example.com"}, "x\r\ny")
   all = table.concat(r)
end

request = function() return all end
