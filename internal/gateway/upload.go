package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// upload is a body that is passed on as it arrives: bounded in size, in how long it may be silent, and in how long it may take.
type upload struct {
	body    io.Reader
	control *http.ResponseController
	silence time.Duration
	until   time.Time
	ended   bool  // all of it was read
	err     error // why it cannot be read to its end
}

func (s *httpServer) newUpload(w http.ResponseWriter, r *http.Request) *upload {
	l := &s.cfg.Limits
	return &upload{
		body: http.MaxBytesReader(w, r.Body, l.UploadBytes), control: http.NewResponseController(w),
		silence: l.ReadTimeout, until: time.Now().Add(l.LongTimeout),
	}
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.ended {
		return 0, io.EOF
	}
	deadline := time.Now().Add(u.silence)
	if deadline.After(u.until) {
		deadline = u.until
	}
	if err := u.control.SetReadDeadline(deadline); err != nil {
		return 0, u.fail(agent.Errorf(agent.CodeInternal, "", "set read deadline: %w", err))
	}
	n, err := u.body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		u.ended = true
		return n, io.EOF
	default: // the client went away, fell silent or was too slow
		return n, u.fail(bodyError(err))
	}
}

func (u *upload) fail(err error) error {
	u.err = err
	return err
}
