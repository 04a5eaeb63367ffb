package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// upload is a body that is handed on as it arrives: bounded in size, and in how long it may be silent.
type upload struct {
	body    io.Reader
	control *http.ResponseController
	silence time.Duration
	ended   bool  // all of it was read
	err     error // why it cannot be read to its end
}

func (s *httpServer) uploadOf(w http.ResponseWriter, r *http.Request) *upload {
	return &upload{
		body: http.MaxBytesReader(w, r.Body, s.cfg.Limits.UploadBytes), control: http.NewResponseController(w), silence: s.cfg.Limits.ReadTimeout,
	}
}

// Read implements [io.Reader]. The deadline is for this read alone: were it to stand, it would end the request while the file is made
// into chunks.
func (u *upload) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.ended {
		return 0, io.EOF
	}
	if err := u.control.SetReadDeadline(time.Now().Add(u.silence)); err != nil {
		return 0, u.fail(agent.Errorf(agent.CodeInternal, "", "set read deadline: %w", err))
	}
	n, err := u.body.Read(p)
	if cerr := u.control.SetReadDeadline(time.Time{}); cerr != nil && err == nil {
		err = cerr
	}
	var tooBig *http.MaxBytesError
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		u.ended = true
		return n, io.EOF
	case errors.As(err, &tooBig):
		return n, u.fail(tooLarge(tooBig.Limit))
	default: // the client went away, or fell silent
		return n, u.fail(agent.Errorf(agent.CodeCancelled, "read body", "%w", err))
	}
}

func (u *upload) fail(err error) error {
	u.err = err
	return err
}
