package events

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// maxListed bounds the list in one answer.
const maxListed = 10_000

// serveSubscribers is the admin page that lists slow clients.
func (s *Server) serveSubscribers(w http.ResponseWriter, r *http.Request) {
	limit := 100
	if text := r.URL.Query().Get("slow"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxListed {
			http.Error(w, "slow: must be a number from 0 to "+strconv.Itoa(maxListed), http.StatusBadRequest)
			return
		}
		limit = n
	}
	list, all := s.hub.Clients(limit)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"total": all, "subscribers": list}) // the client may have gone
}
