package calls

//go:generate go run ../../../../../../scripts/descriptors -package calls -out descriptors.go ../../../echo.proto
