package flightsapi

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// What goes wrong within an answer.
const (
	failRagged = "ragged"
	failBroken = "broken"
	failSlow   = "slow"
	failHTML   = "html"
)

func failures() []string {
	return []string{"500", "503", "429", failSlow, failRagged, failBroken, failHTML}
}

// failed answers in place of the list, or waits until the client leaves; it reports whether there is nothing more to say.
func failed(w http.ResponseWriter, r *http.Request, fail string) bool {
	switch fail {
	case "500", "503", "429":
		status, _ := strconv.Atoi(fail)
		if status != http.StatusInternalServerError {
			w.Header().Set("Retry-After", "1")
		}
		writeError(w, status, "fail", "failed as asked")
		return true
	case failHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Flights</title><p>Please log in.</p>\n") // a client that went away is nobody's fault
		return true
	case failSlow:
		t := time.NewTimer(slowAnswer)
		defer t.Stop()
		select {
		case <-t.C:
			return false
		case <-r.Context().Done():
			return true
		}
	default:
		return false
	}
}
