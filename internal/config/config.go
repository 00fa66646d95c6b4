// Package config reads the one file Tollgate is configured by, says everything
// that is wrong with it at once and with its place, and builds the catalogue.
//
// It opens no connection, starts nothing and knows no defaults of policies: there
// are none. The structs of this file and of tool.go are the file format; the parser,
// its messages, the JSON Schema and the printed configuration are all derived from
// their tags:
//
//	key      the name in the file
//	need     why the key is required
//	default  what holds when it is left out, as it would be written
//	one      the closed set of values
//	min      the least number; a duration of 0 needs min:"0"
//	max      the greatest number
//	doc      what it is, for people
package config

// Config is a whole configuration file. It is made by [Load] or [Parse] only.
type Config struct {
	NATS         NATS                  `key:"nats" doc:"Where the NATS server is: url of an external one, or embedded."`
	Ledger       Ledger                `key:"ledger" doc:"The record of every call and run."`
	Limits       Limits                `key:"limits" doc:"Bounds of the dispatcher itself."`
	Tenants      map[string]Tenant     `key:"tenants" doc:"Who may call what. Left out: only the tenant default, which may call everything."`
	Policies     map[string]Policy     `key:"policies" doc:"The limits of a class of tools."`
	Dependencies map[string]Dependency `key:"dependencies" doc:"What several tools stand on together, such as one API or one database."`
	Tools        map[string]Tool       `key:"tools" doc:"The catalogue: the tools, by name."`
	DeadLetters  DeadLetters           `key:"dead_letters" doc:"What operators may do with dead letters."`
	HTTP         *Listener             `key:"http" doc:"A listener for operators: the console, /metrics, /livez, /readyz. Left out: there is none."`
	Control      Control               `key:"control" doc:"The request/reply endpoints."`
	Log          Log                   `key:"log" doc:"The log on standard error."`

	source
}

// source is what is remembered of how a configuration came to be.
type source struct {
	file     string
	dir      string // what relative paths are relative to
	where    map[string]place
	preset   map[string]bool   // what the file left out and a default holds for
	raw      map[string]string // the text of values that hold ${...}, before it was replaced
	secrets  []string
	warnings []Problem
}

// NATS says how the server is reached.
type NATS struct {
	URL      string    `key:"url" doc:"Address of an external server, such as nats://127.0.0.1:4222; several are separated by commas."`
	Embedded *Embedded `key:"embedded" doc:"Run a server inside this process instead."`
	Creds    string    `key:"creds" doc:"Path of a credentials file."`
	NKey     string    `key:"nkey" doc:"Path of an nkey seed file."`
	User     string    `key:"user" doc:"User name; needs password. With embedded: who may connect."`
	Password Secret    `key:"password"`
	Token    Secret    `key:"token" doc:"Instead of user and password."`
	TLS      *TLS      `key:"tls" doc:"Files for TLS to an external server."`
	Prefix   string    `key:"prefix" default:"tollgate" doc:"First part of every subject."`
}

// Embedded sets the server inside the process.
type Embedded struct {
	Listen   string `key:"listen" default:"127.0.0.1:4222" doc:"Beyond the loopback address only with a user or token."`
	StoreDir string `key:"store_dir" default:"tollgate-data/nats" doc:"Where streams are kept."`
	Sync     Sync   `key:"sync" default:"always" doc:"always: on the disk before it is acknowledged; or how often."`
	MaxStore Size   `key:"max_store" doc:"Most bytes of streams. Left out: three quarters of the free space."`
}

// TLS names the files of a TLS connection.
type TLS struct {
	CA   string `key:"ca" doc:"Path of the certificates to trust."`
	Cert string `key:"cert" doc:"Path of our certificate; needs key."`
	Key  string `key:"key" doc:"Path of our private key; needs cert."`
}

// Ledger says where the records are kept, and how long.
type Ledger struct {
	Path      string   `key:"path" default:"tollgate-data/ledger.db"`
	Sync      Sync     `key:"sync" default:"always" doc:"always: every commit is on the disk first; or how often."`
	Retention Duration `key:"retention" default:"168h" doc:"How long an outcome is remembered. At least the longest max_deadline."`
}

// Limits bound the dispatcher itself, whatever the tools.
type Limits struct {
	Skew          Duration `key:"skew" default:"0s" min:"0" doc:"Allowance for clocks that differ from the server's."`
	MaxBody       Size     `key:"max_body" default:"960KiB" doc:"Most bytes of a call's arguments; at least 64KiB below the server's max_payload."`
	MaxResult     Size     `key:"max_result" default:"768KiB" doc:"Most bytes of a tool's result."`
	Grace         Duration `key:"grace" default:"2s" doc:"What a tool may take past its timeout before it is given up."`
	ShutdownGrace Duration `key:"shutdown_grace" default:"20s" doc:"How long running calls may finish when the dispatcher stops."`
	UnservedGrace Duration `key:"unserved_grace" default:"10m" min:"0" doc:"How long a message waits for a tool nobody serves."`
	EndpointQueue int      `key:"endpoint_queue" default:"1024" min:"1" doc:"Request/reply calls that may wait for a slot."`
}

// Tenant says what a tenant may call.
type Tenant struct {
	Tools []string `key:"tools" need:"name the tools this tenant may call, [\"*\"] for all" doc:"Names, or a prefix and * at the end."`
}

// Policy is the limits of a class of tools. Nothing may be left out.
type Policy struct {
	Attempts      int      `key:"attempts" need:"a policy names every limit, none is built in" min:"1" doc:"Attempts of one call, the first included."`
	Timeout       Duration `key:"timeout" need:"a policy names every limit, none is built in" doc:"Of one attempt."`
	Backoff       Backoff  `key:"backoff" need:"a policy names every limit, none is built in" doc:"Waits between attempts, drawn from 0 to a growing ceiling."`
	MaxRetryAfter Duration `key:"max_retry_after" need:"a policy names every limit, none is built in" min:"0" doc:"Longest stated wait that a call sits out."`
	MaxDeadline   Duration `key:"max_deadline" need:"a policy names every limit, none is built in" doc:"A call ends at most this long after its publish."`
	Run           Run      `key:"run" need:"a policy names every limit, none is built in" doc:"The most one run may spend."`
}

// Backoff is the ceiling of the waits.
type Backoff struct {
	Base         Duration `key:"base" need:"a policy names every limit, none is built in" doc:"Ceiling before the second attempt; it doubles."`
	Cap          Duration `key:"cap" need:"a policy names every limit, none is built in" doc:"Greatest ceiling."`
	ThrottleBase Duration `key:"throttle_base" need:"a policy names every limit, none is built in" doc:"In place of base when the tool says it is throttling."`
}

// Run is what one run may spend at most.
type Run struct {
	Attempts    int      `key:"attempts" need:"a policy names every limit, none is built in" min:"1" doc:"Attempts of all calls together."`
	SideEffects int      `key:"side_effects" need:"a policy names every limit, none is built in" min:"0" doc:"Dispatches of writes."`
	Elapsed     Duration `key:"elapsed" need:"a policy names every limit, none is built in" doc:"From the run's first call, waits included."`
	MaxRepairs  int      `key:"max_repairs" need:"a policy names every limit, none is built in" min:"0" doc:"Calls sent back for invalid arguments."`
	MaxAccounts int      `key:"max_accounts" need:"a policy names every limit, none is built in" min:"1" doc:"Run paths below one run."`
}

// Dependency is what tools share.
type Dependency struct {
	Quota   *Quota   `key:"quota" doc:"Retry quota. Left out: ratio 0.1, burst 20, no refill."`
	Breaker *Breaker `key:"breaker" doc:"off, or when it opens. Left out: 5 in a row, or half of at least 20, for 30s."`
	Rate    *Rate    `key:"rate" doc:"Most attempts a second. Left out: no limit of its own."`
}

// Quota is the retry quota: a bucket of tokens, one a retry.
type Quota struct {
	Ratio  float64 `key:"ratio" need:"a quota says what a success deposits" min:"0" max:"1" doc:"Tokens a success deposits."`
	Burst  float64 `key:"burst" need:"a quota says how many tokens it holds" min:"1" doc:"Most tokens; it starts full."`
	Refill float64 `key:"refill_per_s" default:"0" min:"0" doc:"Tokens a second without a success; jobs want some."`
}

// Rate is a limit of attempts a second.
type Rate struct {
	PerSecond float64 `key:"per_s" need:"a rate says how many attempts a second" min:"0.001"`
	Burst     int     `key:"burst" default:"1" min:"1"`
}

// DeadLetters sets what operators may do with dead letters.
type DeadLetters struct {
	AllowEdit bool `key:"allow_edit" default:"false" doc:"Let operators make another call of a dead letter, with other arguments: tollgate dlq edit."`
}

// Control sets the request/reply endpoints.
type Control struct {
	ReplyPrefixes []string `key:"reply_prefixes" default:"[_INBOX.]" doc:"Reply subjects the endpoints answer on; _R_. is always one."`
}

// Log sets the log.
type Log struct {
	Level  string `key:"level" default:"info" one:"trace,debug,info,warn,error"`
	Format string `key:"format" default:"auto" one:"auto,json,console" doc:"auto: for people on a terminal, json elsewhere."`
}
