package foreign

import "testing"

func TestUserInURL(t *testing.T) {
	if got, want := UserInURL("a%40b:c%3Ad%zz").Value, "Basic YUBiOmMlM0FkJXp6"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
