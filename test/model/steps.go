package model

// next calls visit with every state that may follow s, and what which task does.
func next(v Variant, s state, tasks int, visit func(task int, what string, n state)) {
	for i := range tasks {
		do := func(what string, change func(n *state, t *task)) {
			n := s
			change(&n, &n.tasks[i])
			visit(i, what, n)
		}
		broker(&s, i, do)
		member(v, &s, i, do)
	}
}

// broker is what happens to task i's transaction without it.
func broker(s *state, i int, do func(string, func(*state, *task))) {
	switch s.tasks[i].txn {
	case open:
		do("has its transaction timed out, or fenced by another member", func(_ *state, t *task) { t.txn, t.fenced = aborting, true })
	case committing:
		do("has its commit marker written", func(n *state, t *task) { end(n, t, commitOf(i)) })
	case aborting:
		do("has its abort marker written", func(n *state, t *task) { end(n, t, abortOf(i)) })
	case none:
	}
}

func end(s *state, t *task, e entry) {
	s.log[s.length] = e
	s.length++
	t.txn = none
}

// member is what task i may do. Any member may hold the record at any time.
func member(v Variant, s *state, i int, do func(string, func(*state, *task))) {
	t := &s.tasks[i]
	switch t.phase {
	case idle:
		if committed, _ := s.known(s.length); committed {
			do("finds the record committed and accepts it", func(n *state, t *task) { t.phase, n.accepted = finished, true })
		}
		begin(v, s, i, do)
	case lookedUp:
		claim(i, do)
	case claimed:
		validate(v, s, i, do)
	case ready:
		commit(v, i, t, do)
	case sent:
		resolve(s, i, do)
	case finished:
		return
	}
	if t.phase != idle {
		do("crashes and starts again", func(_ *state, t *task) { restart(t) })
	}
}

// restart is a new producer for the task: it ends what the old one left open, and
// waits for what is being committed.
func restart(t *task) {
	if t.txn == open {
		t.txn = aborting
	}
	t.phase, t.own, t.fenced = idle, 0, false
}

// begin starts an attempt. A transaction begins when the one before is over.
func begin(v Variant, s *state, i int, do func(string, func(*state, *task))) {
	t := &s.tasks[i]
	if t.attempts == 0 || t.txn != none {
		return
	}
	if v != LookUp {
		claim(i, do)
		return
	}
	if committed, decided := s.known(s.length); decided && !committed {
		do("sees the whole ledger decided", func(_ *state, t *task) { t.phase = lookedUp })
	}
}

func claim(i int, do func(string, func(*state, *task))) {
	do("writes outputs and claim", func(n *state, t *task) {
		t.attempts--
		t.phase, t.txn, t.own, t.fenced = claimed, open, n.length, false
		n.log[n.length] = claimOf(i)
		n.length++
	})
}

// validate is the look back before the commit.
func validate(v Variant, s *state, i int, do func(string, func(*state, *task))) {
	t := &s.tasks[i]
	if v == Unvalidated || v == LookUp {
		do("does not look back", func(_ *state, t *task) { t.phase = ready })
		return
	}
	committed, decided := s.known(t.own)
	switch {
	case committed:
		do("finds an earlier claim committed, aborts and accepts", func(n *state, t *task) {
			if t.txn == open && !t.fenced {
				t.txn = aborting
			}
			t.phase, n.accepted = finished, true
		})
	case decided:
		do("finds every earlier claim aborted", func(_ *state, t *task) { t.phase = ready })
	}
}

// commit sends the end of the transaction. What a fenced producer sends is refused.
func commit(v Variant, i int, t *task, do func(string, func(*state, *task))) {
	if v == AcceptFirst {
		do("accepts", func(n *state, _ *task) { n.accepted = true })
	}
	if t.txn == open && !t.fenced {
		do("commits", func(_ *state, t *task) { t.phase, t.txn = sent, committing })
	} else {
		do("is refused the commit", func(_ *state, t *task) { restart(t) })
	}
	_ = i
}

// resolve gets the answer to the commit, or, when it is lost, looks for the own
// marker in the ledger. An answer says that the commit cannot be undone any more.
func resolve(s *state, i int, do func(string, func(*state, *task))) {
	do("gets the answer and accepts", func(n *state, t *task) { t.phase, n.accepted = finished, true })
	t := &s.tasks[i]
	for _, e := range s.log[t.own+1 : s.length] {
		if e.task() == i && !e.isClaim() {
			if e.commits() {
				do("finds its own marker and accepts", func(n *state, t *task) { t.phase, n.accepted = finished, true })
			}
			return
		}
	}
}
