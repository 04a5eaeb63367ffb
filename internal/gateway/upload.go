package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// upload is the body of an upload. Its size, the time of each read and the total time are bounded.
type upload struct {
	body        io.Reader
	control     *http.ResponseController
	readTimeout time.Duration // of each read
	deadline    time.Time     // of all reads
	isRead      bool          // read to its end
	err         error         // of a failed read
}

func (s *httpServer) newUpload(w http.ResponseWriter, r *http.Request) *upload {
	l := &s.cfg.Limits
	return &upload{
		body: http.MaxBytesReader(w, r.Body, l.UploadBytes), control: http.NewResponseController(w),
		readTimeout: l.ReadTimeout, deadline: time.Now().Add(l.LongTimeout),
	}
}

// Read implements [io.Reader].
func (u *upload) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.isRead {
		return 0, io.EOF
	}
	deadline := time.Now().Add(u.readTimeout)
	if deadline.After(u.deadline) {
		deadline = u.deadline
	}
	if err := u.control.SetReadDeadline(deadline); err != nil {
		return 0, u.fail(agent.Errorf(agent.CodeInternal, "", "set read deadline: %w", err))
	}
	n, err := u.body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		u.isRead = true
		return n, io.EOF
	default:
		return n, u.fail(bodyError(err))
	}
}

func (u *upload) fail(err error) error {
	u.err = err
	return err
}
