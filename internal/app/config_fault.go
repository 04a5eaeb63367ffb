package app

import (
	"errors"
	"fmt"
)

// Fault is one thing wrong with the configuration. [Load] joins all of them into its error.
type Fault struct {
	Source  string // "turnstone.yaml:12", a variable's name, "--flag"; empty: the default, or no one place
	Path    string // the setting, as in "http.addr" or "models[0].name"; empty: the file as a whole
	Message string // never a secret
}

// Error is "turnstone.yaml:12: http.addr: want host:port".
func (f *Fault) Error() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Source != "" {
		text = f.Source + ": " + text
	}
	return text
}

// maxFaults bounds the list of faults of one file.
const maxFaults = 100

// faults collects faults up to maxFaults, and counts the others.
type faults struct {
	list []error
	more int
}

func (f *faults) add(source, path, format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, &Fault{Source: source, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.list, &Fault{Message: fmt.Sprintf("and %d more faults", f.more)})...)
	}
	return errors.Join(f.list...)
}
