package calls

//go:generate go run ../../../../scripts/descriptors -package calls -out descriptors.go ../../../../services/echo/rpc/echo.proto
