-- What a script of wrk finds when it begins, and how its functions are called. A state stands for all threads.

local read, path, taken = __read, __path, __taken
__read, __path, __taken = nil, nil, nil

wrk = {scheme = "http", host = "localhost", method = "GET", path = path, headers = {}, addrs = {"localhost"}}

function wrk.format(method, path, headers, body)
	headers = headers or wrk.headers
	body = body or wrk.body
	local lines, has_host = {(method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1"}, false
	for name, value in pairs(headers) do
		local lower = string.lower(name)
		if lower ~= "content-length" then
			lines[#lines + 1] = name .. ": " .. tostring(value)
		end
		has_host = has_host or lower == "host"
	end
	if not has_host then
		lines[#lines + 1] = "Host: " .. (wrk.headers.Host or wrk.headers.host or wrk.host)
	end
	if body then
		lines[#lines + 1] = "Content-Length: " .. #body
	end
	return table.concat(lines, "\r\n") .. "\r\n\r\n" .. (body or "")
end

function wrk.lookup(host) return {host} end
function wrk.connect() return true end

-- The files that a script reads are at hand as texts.
local function lines_of(text)
	return string.gmatch(text:gsub("\r\n", "\n"):gsub("\n$", "") .. "\n", "([^\n]*)\n")
end

local function file(text)
	local rest = lines_of(text)
	return {
		read = function(_, form)
			if type(form) == "string" and form:find("a") then return text end
			return rest()
		end,
		lines = function() return lines_of(text) end,
		close = function() return true end,
	}
end

io = {
	open = function(name, mode)
		if mode and mode:find("[wa+]") then return nil, name .. ": dyno writes no files" end
		local text, why = read(name)
		if not text then return nil, why end
		return file(text)
	end,
	lines = function(name)
		local text, why = read(name)
		if not text then error(why, 2) end
		return lines_of(text)
	end,
	write = function() end,
	stderr = {write = function() end},
	stdout = {write = function() end},
}

function print() end
function require(name) error("dyno has no modules of Lua: " .. tostring(name), 2) end

local thread = {addr = "localhost"}
function thread:set(name, value) _G[name] = value end
function thread:get(name) return _G[name] end
function thread:stop() end
wrk.thread = thread

__dyno = {
	setup = function() if setup then setup(thread) end end,
	init = function() if init then init({[0] = "http://localhost" .. path}) end end,
	request = function() return (request or wrk.request or wrk.format)() end,
	response = function()
		if response then
			response(200, setmetatable({}, {__index = function(_, name) return taken(tostring(name)) end}), "")
		end
	end,
	delay = function() return delay and delay() end,
	base = function()
		if wrk.host == "localhost" and not wrk.port then return "" end
		return wrk.scheme .. "://" .. wrk.host .. (wrk.port and ":" .. wrk.port or "")
	end,
}
