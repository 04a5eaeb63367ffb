package gateway

import (
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// acceptedMedia yields the media types of the Accept headers in their order, with parameters, without those that have q=0.
func acceptedMedia(h http.Header) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, accept := range h.Values("Accept") {
			for media := range strings.SplitSeq(accept, ",") {
				if !isRefused(media) && !yield(media) {
					return
				}
			}
		}
	}
}

// isRefused reports whether a media type of an Accept header has q=0.
func isRefused(media string) bool {
	_, params, err := mime.ParseMediaType(media)
	if err != nil {
		return false
	}
	q, err := strconv.ParseFloat(params["q"], 64)
	return err == nil && q == 0
}

// wantsEvents reports whether the client accepts an event stream, and does not name JSON before it.
func wantsEvents(r *http.Request) bool {
	for accepted := range acceptedMedia(r.Header) {
		media, _, _ := strings.Cut(accepted, ";")
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/event-stream":
			return true
		case "application/json":
			return false
		}
	}
	return false
}
