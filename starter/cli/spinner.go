package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// spinnerPause is the time between two pictures of a spinner.
const spinnerPause = 100 * time.Millisecond

// spinner shows on a terminal that something is waited for. Its zero value shows nothing.
type spinner struct {
	once    sync.Once
	end     chan struct{}
	stopped chan struct{}
}

// startSpinner shows a spinner on standard error, if that is a terminal that moves its cursor and NO_COLOR is not set.
func (a *app) startSpinner(text string) *spinner {
	s := &spinner{}
	if !a.terminals[1] || !wantsColor(a.env) {
		return s
	}
	s.end, s.stopped = make(chan struct{}), make(chan struct{})
	go s.spin(a.errOut, text)
	return s
}

func (s *spinner) spin(to io.Writer, text string) {
	defer close(s.stopped)
	defer fmt.Fprint(to, "\r"+strings.Repeat(" ", len(text)+2)+"\r")
	tick := time.NewTicker(spinnerPause)
	defer tick.Stop()
	for i := 0; ; i++ {
		fmt.Fprintf(to, "\r%c %s", `|/-\`[i%4], text)
		select {
		case <-s.end:
			return
		case <-tick.C:
		}
	}
}

// stop removes the spinner. What is printed afterwards stands where it was.
func (s *spinner) stop() {
	if s == nil || s.end == nil {
		return
	}
	s.once.Do(func() { close(s.end) })
	<-s.stopped
}
