package logs

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// The formats of a log.
const (
	FormatJSON    = "json"    // one object per line
	FormatConsole = "console" // for people
)

// Config configures [New].
type Config struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is [FormatJSON] or [FormatConsole]. On a console, errors have no stack traces unless the level is debug.
	Format string
	// Output receives one entry at a time.
	Output zapcore.WriteSyncer
	// Redactor redacts every text of every entry.
	Redactor *redact.Redactor
}

// New returns a logger that writes every entry, without sampling. An error names the field of the configuration.
func New(c Config) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	out := zapcore.Lock(c.Output)
	options := []zap.Option{zap.AddCaller(), zap.ErrorOutput(out)}
	e := &encoder{settings: settings{redactor: c.Redactor}}
	var config zapcore.EncoderConfig
	switch c.Format {
	case FormatJSON:
		config = lineConfig(zap.NewProductionEncoderConfig())
		e.line = zapcore.NewJSONEncoder(config)
	case FormatConsole:
		config = lineConfig(zap.NewDevelopmentEncoderConfig())
		e.line, e.isConsole, e.isBrief = zapcore.NewConsoleEncoder(config), true, level > zapcore.DebugLevel
		options = append(options, zap.Development())
	default:
		return nil, agent.Invalid("log.format", "want json or console, got %.50q", c.Format)
	}
	if !e.isBrief {
		options = append(options, zap.AddStacktrace(zap.ErrorLevel))
	}
	e.Encoder = zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		SkipLineEnding: true, EncodeTime: config.EncodeTime, EncodeDuration: config.EncodeDuration,
	})
	return zap.New(recoveringCore{zapcore.NewCore(e, out, level)}, options...), nil
}

// lineConfig returns the configuration of an encoder that gets fields as JSON.
func lineConfig(c zapcore.EncoderConfig) zapcore.EncoderConfig {
	c.NewReflectedEncoder = func(w io.Writer) zapcore.ReflectedEncoder { return rawEncoder{w} }
	return c
}
