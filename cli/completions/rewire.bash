# bash completion for rewire; the program itself says what can stand at the cursor.
_rewire() {
  local kind quoted whole word doc strip='' single
  local -a words=() docs=()
  COMPREPLY=()
  {
    read -r kind quoted && IFS= read -r whole || return 0
    while IFS=$'\t' read -r word doc; do
      words+=("$word")
      docs+=("$doc")
    done
  } < <("${1/#\~\//$HOME/}" __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  if [[ $whole == '~'* ]]; then
    compopt -o default
    return 0
  fi
  # bash replaces what stands behind the last of these.
  if [[ $quoted == plain ]]; then
    if [[ $COMP_WORDBREAKS == *:* && $whole == *:* ]]; then strip=${whole%"${whole##*:}"}; fi
    if [[ $COMP_WORDBREAKS == *=* && $whole == *=* ]]; then
      single=${whole%"${whole##*=}"}
      if ((${#single} > ${#strip})); then strip=$single; fi
    fi
  fi
  local i
  for i in "${!words[@]}"; do
    word=${words[i]#"$strip"}
    if [[ $kind == words && $quoted == plain ]]; then printf -v word %q "$word"; fi
    # A list for the eye has what each is.
    if [[ $COMP_TYPE == 63 && -n ${docs[i]} && ${#words[@]} -gt 1 ]]; then word+="  (${docs[i]})"; fi
    COMPREPLY+=("$word")
  done
  if [[ $kind == files ]]; then compopt -o filenames; fi
  if ((${#words[@]} == 1)) && [[ ${words[0]} == *[/=:,.] ]]; then compopt -o nospace; fi
  return 0
}
complete -F _rewire rewire
