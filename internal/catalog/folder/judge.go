package folder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// applyTimeout bounds one call of Apply.
const applyTimeout = time.Minute

// judge applies a state of the folder when it is a new one, or when the last failure is worth another try. It returns why that state is
// not what the catalog holds.
func (f *Folder) judge(ctx context.Context, s *snapshot, force bool) error {
	again := force || passes(f.err) && !time.Now().Before(f.retryAt)
	switch {
	case s.digest == f.seen && (f.err == nil || !again):
	case s.digest == f.good.digest:
		f.conclude(s, nil)
		f.cfg.Logger.Info("the catalog folder is as it was applied", zap.String("folder", f.cfg.Dir), zap.Int("files", len(s.files)))
	default:
		err := f.apply(ctx, s)
		if err != nil && ctx.Err() != nil { // says nothing about the folder
			f.seen = digest{}
			return err
		}
		f.conclude(s, err)
	}
	f.report(s)
	return f.err
}

func (f *Folder) apply(ctx context.Context, s *snapshot) error {
	err := s.faults.Err()
	if err == nil {
		err = f.hand(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("load catalog folder %q: %w", f.cfg.Dir, err)
	}
	return nil
}

// hand calls Apply.
func (f *Folder) hand(ctx context.Context, s *snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	result, err := f.cfg.Apply(ctx, s.files)
	if err != nil {
		if agent.CodeOf(err) != agent.CodeInvalid {
			f.good.digest = digest{} // it may have happened all the same, so the old state would have to be applied again
		}
		return err
	}
	f.good = applied{digest: s.digest, files: len(s.files), revision: result.Revision, at: time.Now()}
	f.cfg.Logger.Info("catalog folder applied", zap.String("folder", f.cfg.Dir), zap.Int("files", len(s.files)),
		zap.Int64("revision", result.Revision), zap.Int("changes", len(result.Changes)))
	return nil
}

// conclude remembers the verdict on a state, and logs a failure that is not the one logged last.
func (f *Folder) conclude(s *snapshot, err error) {
	f.seen, f.err = s.digest, err
	if passes(err) {
		f.retryAt = time.Now().Add(f.patience.NextBackOff())
	} else {
		f.patience.Reset()
	}
	if err == nil {
		f.logged = ""
		return
	}
	if text := err.Error(); text != f.logged {
		f.logged = text
		lines := make([]string, 0, maxFaults)
		for _, fault := range faultsOf(err) {
			lines = append(lines, fault.String())
		}
		f.cfg.Logger.Warn("catalog folder not applied; the last good state is served", zap.String("folder", f.cfg.Dir), zap.Strings("faults", lines))
	}
}

// report writes the status.
func (f *Folder) report(s *snapshot) {
	status := agent.SourceStatus{
		Name: agent.SourceFolder, OK: f.err == nil, Faults: faultsOf(f.err), At: time.Now(),
		Detail: fmt.Sprintf("%s: %s", f.cfg.Dir, count(len(s.files))),
	}
	switch {
	case f.err == nil:
	case f.good.at.IsZero():
		status.Detail += "; not applied, nor was any earlier state since the process began"
	default:
		status.Detail += fmt.Sprintf("; serving the last good state: %s, revision %d, applied %s", count(f.good.files), f.good.revision,
			f.good.at.UTC().Format(time.RFC3339))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func count(files int) string {
	if files == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", files)
}

// passes says whether the same files may be taken later.
func passes(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeRateLimited, agent.CodeConflict:
		return true
	default:
		return false
	}
}

// faultsOf returns what an error has to say as faults; never nil.
func faultsOf(err error) []agent.Fault {
	if err == nil {
		return []agent.Fault{}
	}
	if faults, ok := errors.AsType[agent.Faults](err); ok {
		return faults
	}
	return []agent.Fault{{Message: err.Error()}}
}
