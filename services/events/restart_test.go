package events

const victimFile = "DYNO_EVENTS_VICTIM"

func runVictim(string) {}
