package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// spinnerInterval is the time between two frames of a spinner.
const spinnerInterval = 100 * time.Millisecond

// spinner shows on a terminal that the program waits. The zero value shows nothing.
type spinner struct {
	once    sync.Once
	end     chan struct{}
	stopped chan struct{}
}

// startSpinner shows a spinner on standard error if that is a terminal on which the environment allows colors.
func (a *app) startSpinner(text string) *spinner {
	s := &spinner{}
	if !a.errIsTerminal || !wantsColor(a.env) {
		return s
	}
	s.end, s.stopped = make(chan struct{}), make(chan struct{})
	go s.spin(a.errOut, text)
	return s
}

func (s *spinner) spin(to io.Writer, text string) {
	defer close(s.stopped)
	defer fmt.Fprint(to, "\r"+strings.Repeat(" ", len(text)+2)+"\r")
	tick := time.NewTicker(spinnerInterval)
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

// stop removes the spinner. It may be called again, and on nil.
func (s *spinner) stop() {
	if s == nil || s.end == nil {
		return
	}
	s.once.Do(func() { close(s.end) })
	<-s.stopped
}
