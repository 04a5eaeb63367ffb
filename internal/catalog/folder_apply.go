package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// folderApplyTimeout bounds one call of Apply.
const folderApplyTimeout = time.Minute

// applyIfNew applies a state of the folder if it has changed. It retries a failed state after a delay if the failure was temporary, and at once
// if retry is true. It returns why the state is not applied.
func (f *Folder) applyIfNew(ctx context.Context, s *folderState, retry bool) error {
	retry = retry || (isTemporary(f.lastErr) && !time.Now().Before(f.retryAt))
	switch {
	case s.digest == f.lastDigest && (f.lastErr == nil || !retry):
	case s.digest == f.lastApplied.digest:
		f.recordOutcome(s, nil)
		f.cfg.Logger.Info("the catalog folder is as it was applied", zap.String("folder", f.cfg.Dir), zap.Int("files", len(s.files)))
	default:
		err := f.apply(ctx, s)
		if err != nil && ctx.Err() != nil { // interrupted: not a failure of the folder
			f.lastDigest = folderDigest{}
			return err
		}
		f.recordOutcome(s, err)
	}
	f.updateStatus(s)
	return f.lastErr
}

// apply applies a state unless it has faults.
func (f *Folder) apply(ctx context.Context, s *folderState) error {
	err := s.faults.Err()
	if err == nil {
		err = f.callApply(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("load catalog folder %q: %w", f.cfg.Dir, err)
	}
	return nil
}

// callApply calls Apply and records the applied state.
func (f *Folder) callApply(ctx context.Context, s *folderState) error {
	ctx, cancel := context.WithTimeout(ctx, folderApplyTimeout)
	defer cancel()
	result, err := f.cfg.Apply(ctx, s.files)
	if err != nil {
		if agent.CodeOf(err) != agent.CodeInvalid {
			f.lastApplied.digest = folderDigest{} // the call may have taken effect, so the last applied state is unknown
		}
		return err
	}
	f.lastApplied = appliedFolder{digest: s.digest, files: len(s.files), revision: result.Revision, at: time.Now()}
	f.cfg.Logger.Info("catalog folder applied", zap.String("folder", f.cfg.Dir), zap.Int("files", len(s.files)),
		zap.Int64("revision", result.Revision), zap.Int("changes", len(result.Changes)))
	return nil
}

// recordOutcome records the outcome of a state. It logs a failure unless the last logged failure was the same.
func (f *Folder) recordOutcome(s *folderState, err error) {
	f.lastDigest, f.lastErr = s.digest, err
	if isTemporary(err) {
		f.retryAt = time.Now().Add(f.retryDelays.NextBackOff())
	} else {
		f.retryDelays.Reset()
	}
	if err == nil {
		f.lastLogged = ""
		return
	}
	if text := err.Error(); text != f.lastLogged {
		f.lastLogged = text
		lines := make([]string, 0, maxFaults)
		for _, fault := range faultsOf(err) {
			lines = append(lines, fault.String())
		}
		f.cfg.Logger.Warn("catalog folder not applied; the last good state is served", zap.String("folder", f.cfg.Dir), zap.Strings("faults", lines))
	}
}

// updateStatus sets the result of [Folder.Status].
func (f *Folder) updateStatus(s *folderState) {
	status := agent.SourceStatus{
		Name: agent.SourceFolder, OK: f.lastErr == nil, Faults: faultsOf(f.lastErr), At: time.Now(),
		Detail: fmt.Sprintf("%s: %s", f.cfg.Dir, fileCount(len(s.files))),
	}
	switch {
	case f.lastErr == nil:
	case f.lastApplied.at.IsZero():
		status.Detail += "; not applied, nor was any earlier state since the process began"
	default:
		status.Detail += fmt.Sprintf("; serving the last good state: %s, revision %d, applied %s", fileCount(f.lastApplied.files), f.lastApplied.revision,
			f.lastApplied.at.UTC().Format(time.RFC3339))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func fileCount(files int) string {
	if files == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", files)
}

// isTemporary reports whether the same files may be accepted later.
func isTemporary(err error) bool {
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

// faultsOf returns the faults of an error, never nil. An error without faults is a fault itself.
func faultsOf(err error) []agent.Fault {
	if err == nil {
		return []agent.Fault{}
	}
	if faults, ok := errors.AsType[agent.Faults](err); ok {
		return faults
	}
	return []agent.Fault{{Message: err.Error()}}
}
