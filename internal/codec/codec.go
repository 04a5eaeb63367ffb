package codec

import (
	"errors"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
)

// Config says what happens to payloads; without Keys and without Objects nothing does.
type Config struct {
	Keys    *Keyring // nil: nothing is encrypted, and what is cannot be read
	Objects Objects  // nil: nothing is stored elsewhere, and what is cannot be read
	// Threshold is from what size of payload on it is stored; default 256 KiB. Above MaxBytes, default 32 MiB, it is not.
	Threshold int
	MaxBytes  int64
	Now       func() time.Time // nil: the clock
}

// Codec applies a [Config] to clients, and to what people look at histories with. Its methods may be called from any goroutine.
type Codec struct {
	keys      *Keyring
	data      converter.DataConverter
	driver    *driver // nil: none
	threshold int
}

// New checks the configuration.
func New(cfg Config) (*Codec, error) {
	c := &Codec{keys: cfg.Keys, threshold: cfg.Threshold, data: converter.GetDefaultDataConverter()}
	if c.keys != nil {
		if c.keys.ciphers[c.keys.current] == nil {
			return nil, errors.New("codec: a keyring without keys; want one of ParseKeys")
		}
		c.data = newDataConverter(c.data, c.keys, false)
	}
	if cfg.Objects == nil {
		return c, nil
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if c.threshold == 0 {
		c.threshold = defaultThreshold
	}
	if c.threshold < 0 || cfg.MaxBytes < int64(c.threshold) {
		return nil, agent.Invalid("threshold", "want 1 byte or more, and at most max bytes (%d), got %d", cfg.MaxBytes, c.threshold)
	}
	c.driver = &driver{objects: cfg.Objects, maxBytes: cfg.MaxBytes, now: cfg.Now}
	if c.driver.now == nil {
		c.driver.now = time.Now
	}
	return c, nil
}

// Options puts the codec into the options of a client. Workers take it from their client.
func (c *Codec) Options(o client.Options) client.Options {
	o.DataConverter, o.FailureConverter, o.ExternalStorage = c.data, c.Failures(), c.Storage()
	return o
}

// Data is the data converter: for replays, and for payloads that the SDK does not decode itself, as memos of schedules.
func (c *Codec) Data() converter.DataConverter { return c.data }

// Failures is the failure converter. With keys it puts messages and stack traces of errors where they are encrypted.
func (c *Codec) Failures() converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: c.data, EncodeCommonAttributes: c.keys != nil,
	})
}

// Storage is the external storage, the zero value for none.
func (c *Codec) Storage() converter.ExternalStorage {
	if c.driver == nil {
		return converter.ExternalStorage{}
	}
	return converter.ExternalStorage{
		Drivers: []converter.StorageDriver{c.driver}, DriverSelector: c.driver, PayloadSizeThreshold: c.threshold,
	}
}

// On reports whether anything happens to payloads at all.
func (c *Codec) On() bool { return c.keys != nil || c.driver != nil }
