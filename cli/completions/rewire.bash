# bash completion for rewire. The program prints what can follow at the cursor, escaped for the open quote.
_rewire() {
  local kind word doc
  local -a words=() docs=()
  COMPREPLY=()
  {
    read -r kind || return 0
    while IFS=$'\t' read -r word doc; do
      words+=("$word")
      docs+=("$doc")
    done
  } < <("${1/#\~\//$HOME/}" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  if [[ $kind == default ]]; then
    compopt -o default
    return 0
  fi
  local i
  for i in "${!words[@]}"; do
    word=${words[i]}
    # A list on the screen also shows the docs.
    if [[ $COMP_TYPE == 63 && -n ${docs[i]} && ${#words[@]} -gt 1 ]]; then word+="  (${docs[i]})"; fi
    COMPREPLY+=("$word")
  done
  if [[ $kind == files ]]; then compopt -o filenames; fi
  if ((${#words[@]} == 1)) && [[ ${words[0]} == *[/=:,.\(] ]]; then compopt -o nospace; fi
  return 0
}
complete -F _rewire rewire
