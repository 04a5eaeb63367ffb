package app

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	sdklog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// Logger builds the process's logger: JSON for machines, or console for people.
func Logger(c Log) (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	if c.Format == "console" {
		cfg = zap.NewDevelopmentConfig()
		cfg.DisableStacktrace = true
	}
	level, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	cfg.Level = level
	cfg.Sampling = nil
	logger, err := cfg.Build()
	if err != nil {
		return nil, fmt.Errorf("build logger: %w", err)
	}
	return logger, nil
}

// TemporalLogger gives the Temporal SDK the process's logger.
func TemporalLogger(l *zap.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(zapslog.NewHandler(l.Named("temporal").Core())))
}

// Version is the version of the build: the module's, or the commit's for a build from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
