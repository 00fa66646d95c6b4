package embedded

import (
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// logger gives the server's log to zerolog. A fatal line is an error here: the
// process belongs to the dispatcher, which reports it and decides.
type logger struct {
	log  zerolog.Logger
	last atomic.Pointer[string]
}

func (l *logger) fatal() string {
	if s := l.last.Load(); s != nil {
		return *s
	}
	return ""
}

func (l *logger) Noticef(format string, v ...any) { l.log.Info().Msgf(format, v...) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *logger) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *logger) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l *logger) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }

func (l *logger) Fatalf(format string, v ...any) {
	s := fmt.Sprintf(format, v...)
	l.last.Store(&s)
	l.log.Error().Msg(s)
}
