package scenario_test

import (
	"fmt"

	"dyno/load/pace"
	"dyno/load/scenario"
)

// A user logs in once and then asks for a list with the token that the log-in gave.
func Example() {
	s, err := scenario.Compile(scenario.Spec{
		Variables: []scenario.Variable{{Name: "user", Value: "ada"}},
		Steps: []scenario.Step{
			{
				Name: "login", Once: true, Path: "/login", Body: `{"user":"{{ json_escape(user) }}"}`,
				Extract: []scenario.Extraction{{Name: "token", From: scenario.JSON, Of: "$.token"}},
			},
			{
				Name: "list", Path: "/lists/{{ urlencode(user) }}?n={{ counter() }}",
				Header: []scenario.Field{{Name: "Authorization", Value: "Bearer {{ token }}"}},
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	user := s.Worker(pace.Whole(), 1).User()
	var request scenario.Request
	for _, body := range []string{`{"token":"abc"}`, "[]", "[]"} {
		if ok, err := user.Next(0, &request); !ok || err != nil {
			fmt.Println("no request:", err)
			return
		}
		outline := s.Outlines()[request.Outline]
		fmt.Printf("%s %s %q\n", outline.Method, outline.Path, request.Parts)
		if err := user.Response(0, &scenario.Response{Status: 200, Body: []byte(body), Size: int64(len(body))}); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// POST /login ["{\"user\":\"ada\"}"]
	// GET  ["/lists/ada?n=0" "Bearer abc"]
	// GET  ["/lists/ada?n=1" "Bearer abc"]
}
