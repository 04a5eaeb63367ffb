package logs

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// The formats of a log.
const (
	FormatJSON    = "json"    // one object a line, for machines
	FormatConsole = "console" // for people
)

// Config configures [New].
type Config struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is [FormatJSON] or [FormatConsole]. On a console errors come without stacks unless the level is debug.
	Format string
	// Output receives one entry at a time.
	Output zapcore.WriteSyncer
	// Redactor redacts every text of every entry.
	Redactor *redact.Redactor
}

// New returns a logger. It samples nothing. Errors are [agent.CodeInvalid] with the field of the configuration.
func New(c Config) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	out := zapcore.Lock(c.Output)
	options := []zap.Option{zap.AddCaller(), zap.ErrorOutput(out)}
	left := newBudget()
	var inner zapcore.Encoder
	switch c.Format {
	case FormatJSON:
		inner = zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
		options = append(options, zap.AddStacktrace(zap.ErrorLevel))
	case FormatConsole:
		inner = zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
		options = append(options, zap.Development())
		if level > zapcore.DebugLevel {
			left.isBrief = true
		} else {
			options = append(options, zap.AddStacktrace(zap.ErrorLevel))
		}
	default:
		return nil, agent.Invalid("log.format", "want json or console, got %.50q", c.Format)
	}
	return zap.New(recoveringCore{zapcore.NewCore(newEncoder(inner, newRedaction(c.Redactor), left, false), out, level)}, options...), nil
}
